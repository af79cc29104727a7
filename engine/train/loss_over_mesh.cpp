#include "engine/train/loss_over_mesh.h"

#include <utility>

#include <lockstep/error.h>
#include <lockstep/ops.h>

namespace lockstep::train {
namespace {

Array repeated_last_row(const Array& x, std::int64_t times) {
  const std::int64_t rows = x.dim(0);
  const Array last = slice_in_dim(x, rows - 1, rows, 0);
  return concatenate({x, broadcast_to(last, x.shape().with(0, times))}, 0);
}

Array varying_over_batch(const Array& x) { return x.type().varying.contains(batch_axis) ? x : pvary(x, {batch_axis}); }

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

Array total_over_batch(const Array& x) { return psum(varying_over_batch(x), {batch_axis}); }

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

Array loss_over_batch(const Loss& loss) {
  Array total;
  const auto add = [&](const Array& part) { total = total.has_value() ? total + part : part; };
  for (const Weighted& term : loss.terms) add(ratio_over_batch(term, "loss"));
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

Batch filled(const Batch& batch) {
  const Tree rows = fill_masked_rows(Tree::dict({{"x", Tree(batch.x)}, {"y", Tree(batch.y)}}), batch.weight);
  return {rows.at("x").array(), rows.at("y").array(), batch.weight};
}

Batch padded(Batch batch, std::int64_t multiple) {
  const std::int64_t rows = batch.x.dim(0);
  const std::int64_t missing = (multiple - rows % multiple) % multiple;
  if (missing == 0) return batch;
  const Array& weight = batch.weight;
  return {repeated_last_row(batch.x, missing), repeated_last_row(batch.y, missing),
          concatenate({weight, zeros({missing}, weight.dtype())}, 0)};
}

Batch microbatch(const Batch& batch, std::int64_t part, std::int64_t parts) {
  if (parts == 1) return batch;
  const std::int64_t rows = batch.x.dim(0) / parts;
  const auto cut = [&](const Array& x) { return slice_in_dim(x, part * rows, (part + 1) * rows, 0); };
  return {cut(batch.x), cut(batch.y), cut(batch.weight)};
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
