#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

/// As those of the weights lie, where they do not yet: state may come to be cut in a run's first step.
Array laid_as(const Array& average, const Array& weights) {
  if (!is_cut(weights)) return is_cut(average) ? gather(average) : average;
  if (is_cut(average) && layout_of(average) == layout_of(weights) && mesh_of(average) == mesh_of(weights)) {
    return average;
  }
  return reshard(average, mesh_of(weights), layout_of(weights));
}

using PathLayouts = std::vector<std::pair<std::string, Layout>>;

}  // namespace

/// The average's next value, compiled; of what lies cut each process computes its own blocks.
struct AveragedWeights::Update {
  explicit Update(double momentum_of_average) : momentum(momentum_of_average) {}

  Tree operator()(Tree average, const Tree& weights) {
    look_at(weights);
    if (mesh) average = map(laid_as, average, weights);
    return (*jitted)(std::move(average), weights);
  }

  /// Makes the function anew where the weights lie otherwise than before.
  void look_at(const Tree& weights) {
    std::optional<Mesh> found;
    PathLayouts by_path;
    for (const std::string& path : weights.paths()) {
      const Array& leaf = weights.at(path).array();
      by_path.emplace_back(path, layout_of(leaf));
      if (is_cut(leaf)) found = mesh_of(leaf);
    }
    if (jitted && found == mesh && (!mesh || by_path == layouts)) return;
    mesh = found;
    layouts = std::move(by_path);
    Call call = [m = momentum](const Tree& average, const Tree& leaves) { return averaged(average, leaves, m); };
    if (mesh) {
      const LeafLayouts cut(layouts);
      call = pmap(call, {.mesh = *mesh, .in = {cut, cut}, .out = {cut}, .keep_cut = true});
    }
    jitted.emplace(jit(std::move(call)));
  }

  using Call = std::function<Tree(const Tree&, const Tree&)>;
  double momentum;
  std::optional<Mesh> mesh;  // of what lies cut
  PathLayouts layouts;
  std::optional<Jitted<Call>> jitted;
};

AveragedWeights::AveragedWeights(AveragedWeightsOptions options) : options_(std::move(options)) {
  if (!(options_.momentum >= 0 && options_.momentum < 1)) {
    throw ValueError(
        fmt::format("[averaged_weights] momentum is {}; it must be at least 0 and below 1", options_.momentum));
  }
  trainer::check_count("averaged_weights", "every", options_.every, 1);
  update_ = detail::Owned<Update>::make(options_.momentum);
}
AveragedWeights::~AveragedWeights() = default;

void AveragedWeights::on_begin(const StepReport& report, const Tree& state) {
  // Forgotten here: a fit that is ended by an error has added to the average, and ends at no step.
  const std::int64_t last_step = std::exchange(last_step_, 0);
  const bool goes_on = std::exchange(is_restored_, false) || (last_step > 0 && report.step == last_step);
  if (!goes_on || average_.size() == 0) average_ = state.at(options_.path);
}

void AveragedWeights::on_end(const StepReport& report, const Tree&, Requests&) { last_step_ = report.step; }

void AveragedWeights::on_update(std::int64_t step, const Tree& state) {
  if (step % options_.every != 0) return;
  average_ = (*update_)(std::move(average_), state.at(options_.path));
}

Tree AveragedWeights::saved_state(const Tree& state) const {
  return average_.size() == 0 ? state.at(options_.path) : average_;
}

void AveragedWeights::restore(const Tree& saved) {
  average_ = saved;
  is_restored_ = true;
}

std::string AveragedWeights::name() const {
  return options_.name.empty() ? "averaged_weights " + options_.path : options_.name;
}

}  // namespace lockstep::callbacks
