#include "engine/train/loss_over_mesh.h"

#include <utility>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/sequential_map.h>

namespace lockstep::train {
namespace {

Array varying_over_batch(const Array& x) { return pvary(x, axes_of_batch()); }

Array safe_ratio(const Array& sum, const Array& weight) {
  const Array w = stop_gradient(convert(weight, sum.dtype()));
  return where(w == 0, 0, sum / where(w == 0, 1, w));
}

Array combine(const Array& gradient, Aggregation aggregation, const Array& weight) {
  const Array own = convert(weight, gradient.dtype());
  const Array total = total_over_batch(own);
  const Array local = where(own == 0, 0, gradient * (total / where(own == 0, 1, own)));
  if (aggregation == Aggregation::only_first_replica) {
    return total_over_batch(where(axis_index(batch_axis) == 0, local, 0));
  }
  const Array sum = total_over_batch(local);
  if (aggregation == Aggregation::sum) return sum;
  const Array replicas = total_over_batch(convert(own != 0, gradient.dtype()));
  return where(replicas == 0, 0, sum / where(replicas == 0, 1, replicas));
}

}  // namespace

AxisSet axes_of_batch() {
  return bound_axes().contains(microbatch_axis) ? AxisSet{batch_axis, microbatch_axis} : AxisSet{batch_axis};
}

Array total_over_batch(const Array& x) { return psum(varying_over_batch(x), axes_of_batch()); }

Array ratio_over_batch(const Weighted& term) {
  return safe_ratio(total_over_batch(term.sum), total_over_batch(stop_gradient(term.weight)));
}

Array loss_over_batch(const Loss& loss, const std::vector<Array>& totals) {
  Array total;
  const auto add = [&](const Array& part) { total = total.has_value() ? total + part : part; };
  for (std::size_t i = 0; i < loss.terms.size(); ++i) {
    const Weighted& term = loss.terms[i];
    add(totals.empty() ? ratio_over_batch(term) : safe_ratio(total_over_batch(term.sum), totals[i]));
  }
  for (const Array& penalty : loss.penalties) {
    if (!penalty.type().varying.empty()) {
      throw MeshError("[loss] a penalty is " + to_string(penalty.type()) + ": replicas may differ along " +
                      to_string(penalty.type().varying) +
                      ", so it has no single value to count once; make it from parameters alone (of variables with "
                      "aggregation=none), or give it as Weighted{sum, weight}");
    }
    add(penalty);
  }
  if (!total.has_value()) throw ValueError("[loss] the loss has no term; return Weighted{sum, weight} or a penalty");
  return total;
}

Tree combine_gradients(const Tree& gradients, const Declarations& declared, const Loss& loss) {
  if (declared.empty()) return gradients;
  if (loss.terms.size() != 1) {
    const auto& [path, aggregation] = *declared.begin();
    throw AggregationError(
        "[data_parallel] trainable variable '" + path + "' declares aggregation=" + std::string(name(aggregation)) +
        ", but the loss has " + std::to_string(loss.terms.size()) +
        " weighted terms: a replica's own gradient is defined for one term only; join the terms into "
        "one Weighted, or declare none");
  }
  return map_with_path(
      [&](const std::string& path, const Array& gradient) {
        const auto found = declared.find(path);
        return found == declared.end() ? gradient : combine(gradient, found->second, loss.terms[0].weight);
      },
      gradients);
}

}  // namespace lockstep::train
