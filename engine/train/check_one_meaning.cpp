#include <cmath>
#include <utility>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/train.h>
#include <lockstep/transforms.h>

#include "engine/train/loss_over_mesh.h"
#include "engine/train/replica_step.h"

namespace lockstep {
namespace {

Tree in_float64(const Tree& tree) {
  return map([](const Array& x) { return is_float(x.dtype()) ? convert(x, float64) : x; }, tree);
}

/// Loss, gradients and new state over a mesh of that many shards, as one tree.
Tree outcome(const detail::StepParts& parts, const TrainState& state, const Batch& batch, std::int64_t shards) {
  const Mesh mesh = data_mesh(shards, shards == 1 ? devices("cpu:0") : parts.options.devices, batch.x.dim(0));
  const auto mapped = [&parts](const std::vector<Tree>& shard) {
    train::Differentiated d = train::differentiate(parts, from_tree<TrainState>(shard[0]), from_tree<Batch>(shard[1]));
    return Tree::dict({{"loss", Tree(d.loss)}, {"gradient", std::move(d.gradients)}, {"state", std::move(d.state)}});
  };
  const auto function = [&](const std::vector<Tree>& arguments) {
    const Batch whole = train::padded(train::filled(from_tree<Batch>(arguments[1])), mesh.shards());
    return detail::pmap_call(mapped,
                             {.mesh = mesh, .in = {replicated, sharded(train::batch_axis)}, .out = {replicated}},
                             {arguments[0], to_tree(whole)}, 1);
  };
  return detail::JitCache().call(function, {to_tree(state), to_tree(batch)});
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = a[i] - b[i];
  return d;
}

std::vector<double> as_doubles(const Array& x) {
  if (x.dtype() == DType::key) return convert(random::key_data(x), float64).to_vector<double>();
  return convert(x, float64).to_vector<double>();
}

[[noreturn]] void report(const std::string& path, std::int64_t shards, const std::vector<double>& one,
                         const std::vector<double>& many) {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < one.size(); ++i) {
    if (!(std::abs(one[i] - many[i]) <= std::abs(one[worst] - many[worst]))) worst = i;
  }
  throw AggregationError("[check_one_meaning] '" + path + "' is " + std::to_string(one[worst]) + " with 1 shard and " +
                         std::to_string(many[worst]) + " with " + std::to_string(shards) + " (element " +
                         std::to_string(worst) +
                         "): the step means something else when the batch is cut. Reduce what mixes rows with psum, "
                         "batch_norm or Weighted{sum, weight}, and count penalties outside of them");
}

}  // namespace

void check_one_meaning(const TrainStep& step, const TrainState& state, const Batch& batch, double tolerance) {
  const std::int64_t shards = step.mesh(batch.x.dim(0)).shards();
  if (shards == 1) return;
  detail::StepParts parts = step.parts();
  parts.options.microbatches = 1;
  const TrainState wide{in_float64(state.trainable), in_float64(state.non_trainable), in_float64(state.optimizer),
                        state.step};
  const Batch rows = from_tree<Batch>(in_float64(to_tree(train::checked(batch))));
  const Tree one = outcome(parts, wide, rows, 1);
  const Tree many = outcome(parts, wide, rows, shards);

  double gradient_scale = 0;
  for (const Array& leaf : one.at("gradient").leaves())
    gradient_scale = std::hypot(gradient_scale, norm(as_doubles(leaf)));
  const std::vector<std::string> paths = one.paths();
  const std::vector<Array> a = one.leaves();
  const std::vector<Array> b = many.leaves();
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = as_doubles(a[i]);
    const std::vector<double> y = as_doubles(b[i]);
    // A leaf whose true gradient is 0 (a bias before BatchNorm) holds rounding noise on the scale of the others.
    const double scale = norm(x) + (paths[i].starts_with("gradient") ? 1e-3 * gradient_scale : 0);
    if (!(norm(difference(x, y)) <= tolerance * scale)) report(paths[i], shards, x, y);
  }
}

}  // namespace lockstep
