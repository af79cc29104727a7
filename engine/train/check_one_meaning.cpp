#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/processes.h>
#include <lockstep/train.h>
#include <lockstep/transforms.h>

#include "engine/train/batch_rows.h"
#include "engine/train/declarations.h"
#include "engine/train/loss_over_mesh.h"
#include "engine/train/replica_step.h"

namespace lockstep {
namespace {

Tree in_float64(const Tree& tree) {
  return map([](const Array& x) { return is_float(x.dtype()) ? convert(x, float64) : x; }, tree);
}

/// Loss, gradients, metrics and new state of one shard as one tree; of several objectives, by name.
Tree outcome_of_shard(const detail::StepParts& parts, const TrainState& at, const Tree& shard) {
  const train::Declarations declared = train::find_declarations(parts, at.trainable, at.non_trainable, shard);
  const Tree rows = train::in_parts(shard, parts.options.microbatches);
  std::map<std::string, Tree> all;
  Tree next = at.non_trainable;
  for (const Objective& objective : parts.objectives) {
    train::Differentiated d = train::differentiate({parts, objective, declared, at.trainable, next, rows});
    const std::string prefix = objective.name.empty() ? "" : objective.name + ": ";
    all.insert({{prefix + "loss", Tree(d.loss)},
                {prefix + "gradient", std::move(d.gradients)},
                {prefix + "metric", to_tree(d.metrics)}});
    next = std::move(d.state);
  }
  all.emplace("state", std::move(next));
  return Tree::dict(std::move(all));
}

/// The outcome over a mesh of that many shards, compiled once for all batches of one type.
class Outcome {
 public:
  Outcome(const detail::StepParts& parts, std::int64_t shards) : parts_(parts), shards_(shards) {}

  Tree operator()(const TrainState& state, const Tree& batch) {
    const auto function = [&](const std::vector<Tree>& arguments) {
      const std::vector<Device>& all_devices = parts_.options.devices;
      const std::vector<Device> used = shards_ == 1 ? devices("cpu:0") : all_devices;
      const Mesh mesh = data_mesh(shards_, used, train::rows_of(batch));
      const Tree filled = train::filled(arguments[1], parts_.options.weight);
      const Tree whole = train::padded(filled, parts_.options.weight, mesh.shards() * parts_.options.microbatches);
      const auto mapped = [&](const std::vector<Tree>& shard) {
        return outcome_of_shard(parts_, from_tree<TrainState>(shard[0]), shard[1]);
      };
      return detail::pmap_call(mapped,
                               {.mesh = mesh, .in = {replicated, sharded(train::batch_axis)}, .out = {replicated}},
                               {arguments[0], whole}, 1);
    };
    return compiled_.call(function, {to_tree(state), batch});
  }

 private:
  const detail::StepParts& parts_;
  std::int64_t shards_;
  detail::JitCache compiled_;
};

bool is_gradient(const std::string& path) {
  const std::string first = path.substr(0, path.find('/'));
  return first == "gradient" || first.ends_with(": gradient");
}

double norm(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

/// The norm of the finite elements: what others may differ by.
double finite_norm(std::vector<double> x) {
  std::ranges::replace_if(
      x, [](double v) { return !std::isfinite(v); }, 0);
  return norm(x);
}

/// NaN does not differ from NaN, nor an infinity from itself: a batch that has no finite loss has none however it is cut.
double difference(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)) ? 0 : a - b; }

std::vector<double> difference(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> d(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) d[i] = difference(a[i], b[i]);
  return d;
}

std::vector<double> as_doubles(const Array& x) {
  if (x.dtype() == DType::key) return convert(random::key_data(x), float64).to_vector<double>();
  return convert(x, float64).to_vector<double>();
}

/// "4 shards of 2 microbatches".
std::string cut_text(std::int64_t shards, std::int64_t microbatches) {
  const std::string text = std::to_string(shards) + (shards == 1 ? " shard" : " shards");
  return microbatches == 1 ? text : text + " of " + std::to_string(microbatches) + " microbatches";
}

[[noreturn]] void report(const std::string& path, const std::string& cut, const std::vector<double>& one,
                         const std::vector<double>& many) {
  std::size_t worst = 0;
  for (std::size_t i = 1; i < one.size(); ++i) {
    if (!(std::abs(difference(one[i], many[i])) <= std::abs(difference(one[worst], many[worst])))) worst = i;
  }
  throw AggregationError(fmt::format(
      "[check_one_meaning] '{}' is {} with 1 shard and {} with {} (element {}): the step depends on how the batch is "
      "sharded. Reduce what mixes rows with psum, batch_norm, mean_over_rows or Weighted{{sum, weight}}, and count "
      "penalties outside of them",
      path, one[worst], many[worst], cut, worst));
}

/// Throws where they differ by more than rounding. `cut`: how the second one was made, for the message.
void compare(const Tree& one, const Tree& many, const std::string& cut, double tolerance) {
  double gradient_scale = 0;
  const std::vector<std::string> paths = one.paths();
  const std::vector<Array> a = one.leaves();
  const std::vector<Array> b = many.leaves();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (is_gradient(paths[i])) gradient_scale = std::hypot(gradient_scale, finite_norm(as_doubles(a[i])));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::vector<double> x = as_doubles(a[i]);
    const std::vector<double> y = as_doubles(b[i]);
    // A leaf whose true gradient is 0 (a bias before BatchNorm) holds rounding noise on the scale of the others.
    const double scale = finite_norm(x) + (is_gradient(paths[i]) ? 1e-3 * gradient_scale : 0);
    // A loss may make what it returns narrower than what it is given.
    const double room = is_float(a[i].dtype()) && a[i].dtype() != float64 ? std::max(tolerance, 1e-5) : tolerance;
    if (!(norm(difference(x, y)) <= room * scale)) report(paths[i], cut, x, y);
  }
}

/// A batch to compare, and what it is called after "4 shards".
struct ComparedBatch {
  std::string name;
  Tree rows;
};

/// The batch, then, where it has weights of rows, the batch with the last ones padding: half of the last part, and the
/// whole last shard (of one shard: the last microbatch).
std::vector<ComparedBatch> compared_batches(const Tree& rows, const RowWeights& weight, std::int64_t shards,
                                            std::int64_t microbatches) {
  std::vector<ComparedBatch> batches{{"", rows}};
  if (!train::has_weights(rows, weight)) return batches;
  const std::int64_t count = train::rows_of(rows);
  const auto in_parts_of = [&](std::int64_t parts) { return (count + parts - 1) / parts; };
  for (const std::int64_t padding :
       {in_parts_of(shards * microbatches) / 2, in_parts_of(shards == 1 ? microbatches : shards)}) {
    if (padding == 0 || padding >= count) continue;
    batches.push_back({fmt::format(" where the last {} of {} rows have weight 0", padding, count),
                       train::with_last_rows_padding(rows, weight, padding)});
  }
  return batches;
}

}  // namespace

void check_one_meaning(const TrainStep& step, const TrainState& state, const Tree& batch, double tolerance) {
  if (const int processes = world()->size(); processes > 1) {
    throw MeshError(fmt::format(
        "[check_one_meaning] a process of {}: it compares with 1 shard, which they cannot divide; check in one "
        "process, where as many shards mean the same",
        processes));
  }
  const detail::StepParts& parts = step.parts();
  const RowWeights& weight = parts.options.weight;
  const Tree given = train::without_empty_weights(batch, weight);
  train::check(given, weight);
  // One that is partitioned is traced as one shard's step.
  const std::int64_t shards = parts.partitioned ? 1 : step.mesh(train::rows_of(given)).shards();
  const std::int64_t microbatches = parts.options.microbatches;
  if (shards * microbatches == 1) return;
  detail::StepParts uncut = parts;
  uncut.options.microbatches = 1;
  const auto whole = from_tree<TrainState>(gather(to_tree(state)));
  const Tree rows = train::with_weights(given, weight);
  const auto check = [&](const auto& widened, double allowed) {
    Outcome one(uncut, 1), many(parts, shards);
    const TrainState at{widened(whole.trainable), widened(whole.non_trainable), widened(whole.optimizer), whole.step};
    for (const ComparedBatch& compared : compared_batches(rows, weight, shards, microbatches)) {
      const Tree wide = widened(compared.rows);
      const Tree a = one(at, wide), b = many(at, wide);
      compare(a, b, cut_text(shards, microbatches) + compared.name, allowed);
    }
  };
  try {
    return check(in_float64, tolerance);
  } catch (const AggregationError&) {
    throw;
  } catch (const Error&) {
    // A layer or an op that takes its own dtype only: the step as it is, whose rounding the comparison allows for.
  }
  check([](const Tree& tree) { return tree; }, std::max(tolerance, 1e-3));
}

void check_one_meaning(const TrainStep& step, const TrainState& state, const Batch& batch, double tolerance) {
  check_one_meaning(step, state, to_tree(batch), tolerance);
}

}  // namespace lockstep
