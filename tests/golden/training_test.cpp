#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lockstep/lockstep.h>

// Ten steps of two models against PyTorch 2.11.0. Weights and batches are those of torch_training.py.

using namespace lockstep;

namespace {

constexpr int torch_steps = 10;
constexpr std::int64_t rows_per_step = 64;

std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

/// Leaf i of the tree in path order, by the formula both sides know.
Tree formula_weights(const Tree& like, DType dtype) {
  std::uint64_t leaf = 0;
  return map_with_path(
      [&](const std::string& path, const Array& x) {
        double fan_in = 1;
        for (int i = 0; i + 1 < x.ndim(); ++i) fan_in *= static_cast<double>(x.dim(i));
        const double limit = path.ends_with("kernel") ? std::sqrt(6.0 / fan_in) : 0.1;
        std::vector<double> values(static_cast<std::size_t>(x.size()));
        for (std::size_t k = 0; k < values.size(); ++k) {
          const double unit = static_cast<double>(splitmix64((leaf << 32) + k) >> 11) * 0x1p-52 - 1.0;
          values[k] = static_cast<float>(unit * limit + (path.ends_with("gamma") ? 1.0 : 0.0));
        }
        ++leaf;
        return convert(array(values, x.shape()), dtype);
      },
      like);
}

Model<Array, Array> torch_model(const std::string& name) {
  if (name == "mlp") return models::find("mlp");
  return Model([](Scope& scope, const Array& x) { return models::cnn(scope, x, {.dropout = 0}); });
}

struct TrainingRun {
  std::vector<double> losses;
  Tree weights;
};

TrainingRun run_training(const std::string& model_name, const std::string& optimizer, DType dtype,
                         const DataParallelOptions& options) {
  const auto model = torch_model(model_name);
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [logits, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {}};
  };
  const TrainStep step = data_parallel(
      model, loss, optimizer == "sgd" ? optim::sgd(0.01, 0.9) : optim::adamw(1e-3, 0.9, 0.999, 1e-8, 1e-2), options);
  static const data::FashionMnist sets = data::load_fashion_mnist(LOCKSTEP_FASHION_MNIST_DIR);
  auto set = std::make_shared<const data::Dataset>(sets.train);
  data::Loader loader(set, {.batch = rows_per_step, .shuffle = false});
  auto [trainable, non_trainable] = model.init(random::key(0), zeros({1, 28, 28, 1}, dtype));
  TrainState state = step.init(formula_weights(trainable, dtype), non_trainable);
  TrainingRun run;
  for (int i = 0; i < torch_steps; ++i) {
    Batch batch = loader.next();
    batch.x = convert(batch.x, dtype);
    auto [next, logs] = step(std::move(state), batch);
    state = std::move(next);
    run.losses.push_back(logs.at("loss").item<double>());
  }
  run.weights = state.trainable;
  return run;
}

/// How far a weight is from the one of which torch_training.py has kept a summary, relative to its norm: by the sums with
/// rows of signs, as that says, and by the elements.
double summary_distance(const Array& weight, const nlohmann::json& kept) {
  const std::vector<double> x = convert(weight, float64).to_vector<double>();
  const std::vector<double> elements = kept["elements"], sums = kept["sums"];
  const std::size_t stride = std::max<std::size_t>(x.size() / 8, 1);
  double of_elements = 0, of_sums = 0;
  for (std::size_t i = 0; i < elements.size(); ++i) of_elements += std::pow(x[i * stride] - elements[i], 2);
  for (std::size_t j = 0; j < sums.size(); ++j) {
    double sum = 0;
    for (std::size_t k = 0; k < x.size(); ++k) {
      sum += (splitmix64(((j + 1) << 40) + k) & 1) == 0 ? x[k] : -x[k];
    }
    of_sums += std::pow(sum - sums[j], 2) / static_cast<double>(sums.size());
  }
  return std::sqrt(std::max(of_elements, of_sums)) / kept["norm"].get<double>();
}

nlohmann::json stored_torch(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_TESTS_DIR) + "/golden/torch_" + name + ".json");
  return nlohmann::json::parse(file);
}

void check_run(const std::string& model, const std::string& optimizer, DType dtype, const DataParallelOptions& options,
               double tolerance) {
  const std::string name = model + "_" + optimizer;
  const auto losses =
      stored_torch("losses")[name + "_" + std::string(lockstep::name(dtype))].get<std::vector<double>>();
  const TrainingRun run = run_training(model, optimizer, dtype, options);
  REQUIRE(losses.size() == run.losses.size());
  for (std::size_t i = 0; i < losses.size(); ++i) {
    CAPTURE(i);
    CHECK(std::abs(run.losses[i] - losses[i]) <= tolerance * std::abs(losses[i]));
  }
  const nlohmann::json expected = stored_torch("weights")[name];
  const std::vector<std::string> paths = run.weights.paths();
  const std::vector<Array> leaves = run.weights.leaves();
  REQUIRE(paths.size() == expected.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    CAPTURE(paths[i]);
    REQUIRE(expected.contains(paths[i]));
    CHECK(summary_distance(leaves[i], expected[paths[i]]) <= tolerance);
  }
}

}  // namespace

TEST_CASE("ten SGD-momentum steps of mlp and cnn match PyTorch") {
  for (const std::string model : {"mlp", "cnn"}) {
    for (const std::int64_t shards : {1, 8}) {
      CAPTURE(model);
      CAPTURE(shards);
      check_run(model, "sgd", float32, {.devices = {}, .shards = shards}, 1e-4);
      check_run(model, "sgd", float64, {.devices = {}, .shards = shards}, 1e-10);
    }
  }
}

TEST_CASE("ten AdamW steps of mlp and cnn match PyTorch in float64") {
  for (const std::string model : {"mlp", "cnn"}) {
    CAPTURE(model);
    check_run(model, "adamw", float64, {.devices = {}, .shards = 8}, 1e-10);
  }
}
