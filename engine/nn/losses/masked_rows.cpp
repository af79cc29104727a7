#include <string>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/weighted.h>

#include "engine/nn/losses/loss_operands.h"

namespace lockstep {
namespace {

struct CountedRows {
  Array counts;  ///< bool [B].
  Array first;   ///< The first that counts.
  Array any;     ///< Whether one does.
};

/// Whether a choice between arrays of one shape is a fused loop.
bool has_fused_choice(DType dtype) { return dtype == float32 || dtype == int32; }

Array filled(const Array& x, const CountedRows& rows) {
  if (x.dtype() == DType::key) return random::wrap_key_data(filled(random::key_data(x), rows));
  Array row = take(x, rows.first, 0, IndexMode::promise_in_bounds);
  // At x's shape both choices are one loop then.
  if (has_fused_choice(x.dtype())) row = broadcast_to(row, x.shape());
  const Array fallback = is_inexact(x.dtype()) ? full({}, 0.5, x.dtype()) : zeros({}, x.dtype());
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.ndim()), 1);
  shape[0] = x.dim(0);
  return where(reshape(rows.counts, shape), x, where(rows.any, row, fallback));
}

}  // namespace

Tree fill_masked_rows(const Tree& rows, const ArrayOperand& weight) {
  if (!weight.has_value()) return rows;
  if (weight.ndim() != 1) {
    throw DataError("[fill_masked_rows] the weights are " + to_string(weight.type()) + "; give one for each row, [B]");
  }
  nn::check_real("fill_masked_rows", "weights", weight);
  const Array counts = stop_gradient(weight) != 0;
  const CountedRows found{.counts = counts, .first = argmax(counts, 0), .any = any(counts)};
  return map_with_path(
      [&](const std::string& path, const Array& x) {
        if (x.ndim() == 0) return x;
        if (x.dim(0) != weight.dim(0)) {
          throw DataError("[fill_masked_rows] leaf '" + path + "' is " + to_string(x.type()) + ", there are " +
                          std::to_string(weight.dim(0)) +
                          " weights; give leaves with one row for each weight, or of rank 0");
        }
        return filled(x, found);
      },
      rows);
}

void check_reduced_alike(std::string_view what, const Weighted& weighted) {
  const AxisSet of_sum = weighted.sum.type().varying;
  const AxisSet of_weight = weighted.weight.type().varying;
  if (of_sum == of_weight) return;
  const bool weight_is_whole = of_weight.without(of_sum).empty();
  throw MeshError("[" + std::string(what) + "] the sum is " + to_string(weighted.sum.type()) + ", the weight " +
                  to_string(weighted.weight.type()) + ": the " + (weight_is_whole ? "weight" : "sum") +
                  " is the same on all replicas (reduced already, or a constant), the " +
                  (weight_is_whole ? "sum" : "weight") +
                  " is each replica's own part, so their ratio would be off by the number of replicas. Give both of "
                  "this replica's rows, Weighted{sum(values * weight), sum(weight)}, as weighted(values, weight) does, "
                  "and the step reduces them once (a count of rows is sum(ones_like(values))); or both reduced, "
                  "Weighted{psum(s, axes), psum(w, axes)}");
}

}  // namespace lockstep
