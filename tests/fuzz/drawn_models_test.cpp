#include "tests/fuzz/drawn_models.h"

#include <cmath>
#include <iostream>
#include <map>
#include <set>
#include <string>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "tests/fuzz/number_from.h"
#include "tests/support/training.h"

// One training step of a drawn model: transforms, shards, devices, microbatches and what stands in masked rows change
// nothing. LOCKSTEP_DRAWN_MODELS says how many, LOCKSTEP_FUZZ_SEED the first one's seed; a failing model names its own.

namespace lockstep::tests {
namespace {

const std::uint64_t models = number_from("LOCKSTEP_DRAWN_MODELS", 100);

Tree in_dtype(const Tree& tree, DType dtype) {
  return map([&](const Array& x) { return is_float(x.dtype()) ? convert(x, dtype) : x; }, tree);
}

struct Cut {
  std::int64_t shards = 1, microbatches = 1;
  int devices = 1;
};

/// What one step makes: loss, output, gradients (the first momentum is one), new state.
Tree outcome(const DrawnModel& drawn, const Model<Array, Array>& model, const Batch& batch, const Cut& cut) {
  const DataParallelOptions options{.devices = devices(fmt::format("cpu:0-{}", cut.devices - 1)),
                                    .shards = cut.shards,
                                    .microbatches = cut.microbatches};
  const auto loss = [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    const Weighted output = weighted(squeeze(sin(y), {-1}), b.weight);
    return WithAux{mean_squared_error(y, b.y, b.weight), next, {{"output", output}}};
  };
  const TrainStep step = data_parallel(loss, optim::sgd(0.125, 0.5), options);
  auto [trainable, non_trainable] = model.init(random::key(11), batch.x);
  auto [state, logs] = step(step.init(in_dtype(trainable, drawn.dtype), in_dtype(non_trainable, drawn.dtype)), batch);
  return Tree::dict({{"loss", Tree(logs.at("loss"))},
                     {"output", Tree(logs.at("output"))},
                     {"gradients", state.optimizer},
                     {"trainable", state.trainable},
                     {"state", state.non_trainable}});
}

/// The plain form's variables as `like` has them: layers of a scan stacked.
Tree as_lifted(Tree outcome, const DrawnModel& drawn) {
  for (std::size_t i = 0; i < drawn.transforms.size(); ++i) {
    if (drawn.transforms[i].name != "scan_layers") continue;
    std::set<std::string> stacks;
    const std::string stack = "layer_" + std::to_string(i) + "/stack";
    for (const std::string& path : outcome.paths()) {
      const std::size_t at = path.find(stack);
      if (at != std::string::npos) stacks.insert(path.substr(0, at + stack.size()));
    }
    for (const std::string& path : stacks) outcome = stack_layers(outcome, path);
  }
  return outcome;
}

/// What is made of gradients.
bool is_of_gradients(const std::string& path) { return path.starts_with("gradients") || path.starts_with("trainable"); }

/// The first leaf that differs in a bit, or nothing.
std::string other_bits(const Tree& a, const Tree& b) {
  if (a.paths() != b.paths()) return "paths";
  const std::vector<Array> p = a.leaves(), q = b.leaves();
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (p[i].type() != q[i].type() || p[i].to_bytes() != q[i].to_bytes()) return a.paths()[i];
  }
  return {};
}

double norm_of(const Array& x) { return std::sqrt(sum(square(convert(x, float64))).item<double>()); }

/// The first leaf that differs by more than a tolerance relative to its norm, or nothing. A gradient whose true value is 0
/// holds rounding noise on the scale of the others.
std::string other_values(const Tree& a, const Tree& b, double tolerance) {
  if (a.paths() != b.paths()) return "paths";
  const std::vector<Array> p = a.leaves(), q = b.leaves();
  const std::vector<std::string> paths = a.paths();
  double gradients = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (paths[i].starts_with("gradients")) gradients = std::hypot(gradients, norm_of(p[i]));
  }
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (!is_float(p[i].dtype())) {
      if (p[i].to_bytes() != q[i].to_bytes()) return paths[i];
      continue;
    }
    const double floor = is_of_gradients(paths[i]) ? gradients : 1;
    const double off = norm_of(convert(p[i], float64) - convert(q[i], float64));
    if (!(off <= tolerance * (norm_of(p[i]) + floor))) return fmt::format("{} is off by {:.2e}", paths[i], off);
  }
  return {};
}

/// Of values that are the same sums in another order. Narrow ones round each layer's result, forward and backward.
double tolerance_of(DType dtype) { return dtype == float64 ? 1e-10 : dtype == float32 ? 1e-5 : 0.15; }

/// What differs, or nothing.
std::string broken(const DrawnModel& drawn) {
  const double tolerance = tolerance_of(drawn.dtype);
  const Cut cut{drawn.shards, drawn.microbatches, 1};
  const Cut two_devices{drawn.shards, drawn.microbatches, 2};
  const Tree lifted = outcome(drawn, drawn.lifted(), drawn.batch, cut);
  if (drawn.shards > 1) {
    const std::string bits = other_bits(lifted, outcome(drawn, drawn.lifted(), drawn.batch, two_devices));
    if (!bits.empty()) return "other bits on two devices: " + bits;
  }
  if (drawn.draws_alike()) {
    const Tree plain = as_lifted(outcome(drawn, drawn.plain(), drawn.cleaned, cut), drawn);
    const std::string bits = drawn.sums_alike() ? other_bits(lifted, plain) : "";
    if (!bits.empty()) return "other bits without transforms: " + bits;
    const std::string values = other_values(plain, lifted, tolerance);
    if (!values.empty()) return "other values without transforms: " + values;
  }
  if (drawn.has_batch_norm && drawn.microbatches > 1) return {};  // Told so: another model for every cut.
  const bool plain = drawn.draws_alike();
  Tree whole = outcome(drawn, plain ? drawn.plain() : drawn.lifted(), drawn.cleaned, {});
  if (plain) whole = as_lifted(std::move(whole), drawn);
  const std::string values = other_values(whole, lifted, tolerance);
  return values.empty() ? values : "another value than uncut: " + values;
}

bool is_refused(const DrawnModel& drawn) {
  try {
    (void)outcome(drawn, drawn.lifted(), drawn.batch, {drawn.shards, drawn.microbatches, 1});
  } catch (const MeshError& error) {
    return std::string(error.what()).find("per_microbatch") != std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE("drawn models: transforms, shards, devices, microbatches and masked rows change nothing") {
  std::uint64_t compared = 0, refused = 0, different = 0;
  std::map<std::string, int> transforms;
  for (std::uint64_t seed = first_seed; seed < first_seed + models; ++seed) {
    const DrawnModel drawn = draw_model(seed);
    INFO("seed ", seed, ": ", drawn.text);
    if (drawn.has_batch_norm && drawn.microbatches > 1 && !drawn.per_microbatch) {
      CHECK_MESSAGE(is_refused(drawn), "statistics of microbatches were not asked for");
      ++refused;
      continue;
    }
    std::string what;
    try {
      what = broken(drawn);
    } catch (const std::exception& error) {
      what = error.what();
    }
    CHECK_MESSAGE(what.empty(), what);
    ++compared;
    different += what.empty() ? 0 : 1;
    for (const DrawnTransform& transform : drawn.transforms) ++transforms[transform.name];
  }
  std::cout << fmt::format("{} drawn models: {} compared, {} refused as they must be, {} differ\n", models, compared,
                           refused, different);
  if (models >= 100) CHECK(transforms.size() == 14);
}

}  // namespace lockstep::tests
