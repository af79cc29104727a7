#include <doctest/doctest.h>

#include <lockstep/processes.h>

#include "tests/acceptance/cases.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training.h"

// Runs: what is saved and gone on with, the order of rows, and one set of bits however they are spread.
namespace lockstep::tests {
namespace {

/// Statistics, a random state, dropout; float32.
Model<Array, Array> normalized_mlp() {
  return Model<Array, Array>([](const Scope& s, const Array& x) {
    const Array h = relu(batch_norm(s["norm"], dense(s["in"], x, {.units = 24, .use_bias = false})));
    return dense(s["out"], dropout(s["drop"], h, 0.25), {.units = 4});
  });
}

std::shared_ptr<const data::Dataset> labelled_rows(std::int64_t rows) {
  auto set = std::make_shared<data::Dataset>();
  const auto count = static_cast<std::size_t>(rows);
  std::vector<float> x(count * 6);
  std::vector<std::int32_t> y(count);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37) % 101) / 50 - 1;
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = static_cast<std::int32_t>(i % 4);
  set->x = data::host_table(x, Shape{rows, 6});
  set->y = data::host_table(y, Shape{rows});
  set->classes = 4;
  return set;
}

/// Steps of a training, with a loss scale and momenta, from the loader's position on.
TrainState trained(const TrainStep& step, TrainState state, data::Loader& loader, int steps) {
  for (int i = 0; i < steps; ++i) state = step(std::move(state), loader.next()).first;
  return state;
}

Tree saved_and_gone_on_with(const Replicas& replicas) {
  constexpr int half = 7;
  const auto model = normalized_mlp();
  DataParallelOptions options = parallel(replicas);
  options.loss_scale = LossScale{.initial = 8, .growth_steps = 5};
  const auto made = [&] {
    return data_parallel(loss_of(model), optim::chain(optim::clip_by_global_norm(1.0), optim::adam(0.01)), options);
  };
  const auto set = labelled_rows(50);
  const data::LoaderOptions order{.batch = 16, .seed = 5};
  const TrainStep step = made();
  data::Loader loader(set, order);
  const TrainState start = fresh_state(step, model, {zeros({16, 6}), zeros({16}, int32), ones({16})});
  const TrainState through = trained(step, start, loader, 2 * half);

  const SharedFolder folder("saved-" + std::to_string(replicas.shards) + "-" + std::to_string(replicas.devices));
  data::Loader first(set, order);
  const TrainState saved = trained(step, start, first, half);
  const Tree position =
      Tree::dict({{"epoch", Tree(array(first.position().epoch))}, {"rows", Tree(array(first.position().row))}});
  checkpoint::save(folder.path() / "saved", Tree::dict({{"state", to_tree(saved)}, {"data", position}}), {});

  const TrainStep again = made();
  const Tree like = Tree::dict({{"state", to_tree(start)}, {"data", position}});
  const Tree restored = checkpoint::restore(folder.path() / "saved", like);
  CHECK(fingerprint(restored.at("state")) == fingerprint(to_tree(saved)));
  data::Loader second(set, order);
  second.seek(
      {restored.at("data/epoch").array().item<std::int64_t>(), restored.at("data/rows").array().item<std::int64_t>()});
  const TrainState ended = trained(again, from_tree<TrainState>(restored.at("state")), second, half);
  CHECK(fingerprint(to_tree(ended)) == fingerprint(to_tree(through)));
  CHECK(second.position() == loader.position());
  return to_tree(ended);
}

/// The rows of a batch of 18, in the order of shards, however many threads have made it.
Tree order_of_eighteen(const Replicas& replicas) {
  const auto set = labelled_rows(100);
  const auto labels = [&](const Array& x) {
    const auto own = [](const Array& rows, const Array& weight) {
      return where(expand_dims(weight, 1) != 0, rows, 99);
    };
    const Layout cut = sharded("batch");
    const std::int64_t padded = (18 + replicas.shards - 1) / replicas.shards * replicas.shards;
    const Array all = concatenate({x, zeros({padded - 18, 6})}, 0);
    const Array weight = convert(arange(padded) < 18, float32);
    return slice_in_dim(pmap(own, {.mesh = mesh_of(replicas), .in = {cut, cut}, .out = {cut}})(all, weight), 0, 18, 0);
  };
  data::Loader loader(set, {.batch = 18, .seed = 3});
  std::vector<Tree> batches;
  std::vector<std::string> expected;
  for (int i = 0; i < 7; ++i) {
    const Array x = loader.next().x;
    CHECK(labels(x).to_bytes() == x.to_bytes());
    expected.push_back(fingerprint(Tree(x)));
    batches.emplace_back(x);
  }
  for (const int workers : {1, 2, 3, 6, 9, 18}) {
    data::SourceLoader made(data::in_memory(*set), {.batch = 18, .seed = 3}, {.threads = workers});
    for (const std::string& hash : expected) CHECK(fingerprint(Tree(made.next<Batch>().x)) == hash);
  }
  return Tree::list(batches);
}

Tree one_hundred_steps(const Replicas& replicas) {
  const auto model = normalized_mlp();
  const TrainStep step = data_parallel(loss_of(model), optim::adam(0.01), parallel(replicas));
  const auto set = labelled_rows(64);
  data::Loader loader(set, {.batch = 32, .seed = 1});
  TrainState state = fresh_state(step, model, {zeros({32, 6}), zeros({32}, int32), ones({32})});
  state = trained(step, std::move(state), loader, 100);
  CHECK(state.step.item<std::int64_t>() == 100);
  if (world()->size() == 1 && replicas.devices == 1) {
    for (const int devices : {4, 8}) {
      const TrainStep other = data_parallel(loss_of(model), optim::adam(0.01), parallel({replicas.shards, devices}));
      data::Loader again(set, {.batch = 32, .seed = 1});
      TrainState begun = fresh_state(other, model, {zeros({32, 6}), zeros({32}, int32), ones({32})});
      CHECK(fingerprint(to_tree(trained(other, std::move(begun), again, 100))) == fingerprint(to_tree(state)));
    }
  }
  return to_tree(state);
}

}  // namespace

std::vector<AcceptanceCase> run_cases() {
  return {{"T82: a run saved half way and gone on with equals one that was not, its state and its rows",
           saved_and_gone_on_with},
          {"T83: the rows of a batch of 18 have one order, whatever shards, processes and threads", order_of_eighteen},
          {"T88: an mlp with BatchNorm and dropout has one fingerprint after 100 steps on 1 to 8 devices",
           one_hundred_steps,
           {8}}};
}

}  // namespace lockstep::tests
