#include <utility>

#include <fmt/format.h>

#include <lockstep/callbacks.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/transforms.h>

#include "engine/trainer/monitor.h"

namespace lockstep::callbacks {
namespace {

/// In at least float32; what is no float follows the weights.
Tree averaged(const Tree& average, const Tree& weights, double momentum) {
  return map(
      [momentum](const Array& a, const Array& w) {
        if (!is_float(w.dtype()) && !is_complex(w.dtype())) return w;
        const DType wide = promote(w.dtype(), float32);
        return convert(convert(a, wide) * momentum + convert(w, wide) * (1 - momentum), w.dtype());
      },
      average, weights);
}

}  // namespace

struct AveragedWeights::Update {
  explicit Update(double momentum)
      : call([momentum](const Tree& average, const Tree& weights) { return averaged(average, weights, momentum); }) {}
  Tree operator()(Tree average, const Tree& weights) const { return jitted(std::move(average), weights); }

  std::function<Tree(const Tree&, const Tree&)> call;
  Jitted<std::function<Tree(const Tree&, const Tree&)>> jitted = jit(call);
};

AveragedWeights::AveragedWeights(AveragedWeightsOptions options) : options_(std::move(options)) {
  if (!(options_.momentum >= 0 && options_.momentum < 1)) {
    throw ValueError(
        fmt::format("[averaged_weights] momentum is {}; it must be at least 0 and below 1", options_.momentum));
  }
  trainer::check_count("averaged_weights", "every", options_.every, 1);
  update_ = std::make_unique<Update>(options_.momentum);
}
AveragedWeights::~AveragedWeights() = default;

void AveragedWeights::on_begin(const StepReport&, const Tree& state) {
  const Tree& weights = state.at(options_.path);
  for (const Array& leaf : weights.leaves()) {
    if (!is_cut(leaf)) continue;
    throw StateError(
        fmt::format("[averaged_weights] '{}' lies cut over processes; average inside of the step, by "
                    "optim::average_parameters",
                    options_.path));
  }
  if (average_.size() == 0) average_ = weights;
}

void AveragedWeights::on_step(const StepReport& report, const Tree& state, Requests&) {
  if (report.step % options_.every != 0) return;  // an epoch's end
  average_ = (*update_)(std::move(average_), state.at(options_.path));
}

Tree AveragedWeights::saved_state(const Tree& state) const {
  return average_.size() == 0 ? state.at(options_.path) : average_;
}

void AveragedWeights::restore(const Tree& saved) { average_ = saved; }

}  // namespace lockstep::callbacks
