#include "engine/train/loss_over_mesh.h"

#include <utility>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/sequential_map.h>

namespace lockstep::train {
namespace {

Array varying_over_batch(const Array& x) { return pvary(x, axes_of_batch()); }

/// Narrower dtypes cannot hold a sum over many rows or replicas.
Array in_float32(const Array& x) { return convert(x, promote(x.dtype(), float32)); }

Array safe_ratio(const Array& sum, const Array& weight) {
  const Array w = stop_gradient(convert(weight, sum.dtype()));
  return where(w == 0, 0, sum / where(w == 0, 1, w));
}

Array combined_wide(const Array& gradient, Aggregation aggregation, const Array& weight) {
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

/// Rounded once, to the gradient's dtype: the sum of what is averaged may be beyond it.
Array combine(const Array& gradient, Aggregation aggregation, const Array& weight) {
  return convert(combined_wide(in_float32(gradient), aggregation, weight), gradient.dtype());
}

void check_own_weight(const Declarations& declared, const Array& weight) {
  if (!weight.type().varying.empty()) return;
  const auto& [path, aggregation] = *declared.begin();
  throw AggregationError("[data_parallel] trainable variable '" + path + "' declares aggregation=" +
                         std::string(name(aggregation)) + ", but the loss's weight is " + to_string(weight.type()) +
                         ", the same on all replicas (reduced already, or a constant): a replica's own gradient is "
                         "defined by its own weight; return the Weighted of this replica's rows, not reduced, or "
                         "declare none");
}

}  // namespace

AxisSet axes_of_batch() {
  return bound_axes().contains(microbatch_axis) ? AxisSet{batch_axis, microbatch_axis} : AxisSet{batch_axis};
}

Array total_over_batch(const Array& x) { return psum(varying_over_batch(x), axes_of_batch()); }

Array ratio_over_batch(const Weighted& term, std::string_view what) {
  check_reduced_alike(what, term);
  return safe_ratio(total_over_batch(in_float32(term.sum)), total_over_batch(stop_gradient(in_float32(term.weight))));
}

Weighted sums_over_batch(const Weighted& term, std::string_view what) {
  check_reduced_alike(what, term);
  const auto total = [](const Array& x) {
    return x.type().varying.empty() ? in_float32(x) : total_over_batch(in_float32(x));
  };
  return {total(term.sum), total(term.weight)};
}

Array loss_over_batch(const Loss& loss, const std::vector<Array>& totals) {
  Array total;
  const auto add = [&](const Array& part) { total = total.has_value() ? total + part : part; };
  for (std::size_t i = 0; i < loss.terms.size(); ++i) {
    const Weighted& term = loss.terms[i];
    if (totals.empty()) {
      add(ratio_over_batch(term, "loss"));
    } else {
      check_reduced_alike("loss", term);
      add(safe_ratio(total_over_batch(in_float32(term.sum)), totals[i]));
    }
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
  check_own_weight(declared, loss.terms[0].weight);
  return map_with_path(
      [&](const std::string& path, const Array& gradient) {
        const auto found = declared.find(path);
        return found == declared.end() ? gradient : combine(gradient, found->second, loss.terms[0].weight);
      },
      gradients);
}

}  // namespace lockstep::train
