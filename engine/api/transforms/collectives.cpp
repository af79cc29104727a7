#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/cell.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/sequential_map.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ir/exchange.h"
#include "engine/ops/primitives.h"
#include "engine/trace/trace.h"

namespace lockstep {

namespace {

Array reduced_over(const ir::Primitive& primitive, const Array& x, const AxisSet& axes) {
  return axes.empty() ? x : api::bind_one(primitive, {x}, {{"axes", axes.names()}});
}

/// What an op made of another one must say itself: that axes are bound and x varies along them.
void expect_varying(std::string_view op, const Array& x, const AxisSet& axes, std::string_view instead) {
  tracing::bound_axes().size(axes, op);
  const ArrayType type = tracing::type_in_trace(x);
  const AxisSet missing = axes.without(type.varying);
  if (missing.empty()) return;
  throw MeshError(
      fmt::format("{} given {}; expected an operand that varies along {}, but it is invariant along {} (every replica "
                  "holds the same "
                  "value); instead {}",
                  op, to_string(type), to_string(axes), to_string(missing), instead));
}

/// Rows of one microbatch gathered over the shards are not those of the batch: what is made of them would be another loss.
void expect_whole_batch(std::string_view op, const Array& x, const std::string& axis) {
  constexpr std::string_view rows = "batch";  // the axis along which a training step shards rows
  if (axis != rows || !tracing::type_in_trace(x).varying.contains(microbatch_axis)) return;
  throw MeshError(
      fmt::format("{} along \"{}\" of {}: the step cuts the batch into microbatches, which run one after the other, so "
                  "rows of the others are not there and the loss would depend on microbatches; give microbatches = 1",
                  op, axis, to_string(tracing::type_in_trace(x))));
}

Array collective_along(const ir::Primitive& primitive, const Array& x, const std::string& axis, std::int64_t dim) {
  tracing::bound_axes().size(axis, primitive.name);
  const std::int64_t resolved = normalize_axis(dim, x.ndim(), primitive.name);
  return api::bind_one(primitive, {x}, {{"axis", axis}, {"dim", resolved}});
}

}  // namespace

Array psum(const Array& x, const AxisSet& axes, const detail::CallSite& /*at*/) {
  return reduced_over(ops::primitives::psum(), x.dtype() == bool_ ? convert(x, int32) : x, axes);
}

Tree psum(const Tree& tree, const AxisSet& axes) {
  return map([&axes](const Array& leaf) { return psum(leaf, axes); }, tree);
}

Tree detail::pvary_leaves(const Tree& tree, const AxisSet& axes) {
  return map([&](const Array& leaf) { return pvary(leaf, axes); }, tree);
}

Array pmean(const ArrayOperand& x, const AxisSet& axes) {
  if (x.dtype() == DType::key) {
    throw DtypeError(fmt::format("pmean given {}; expected numbers; instead draw on each replica by a key of its own",
                                 to_string(x.type())));
  }
  const DType dtype = api::inexact(x.dtype());
  if (axes.empty()) return convert(x, dtype);
  expect_varying("pmean", x, axes, "use x as it is: it is its own mean");
  // The sum of what is averaged may be beyond a narrow dtype.
  const Array total = psum(convert(x, promote(dtype, float32)), axes);
  return convert(div(total, static_cast<double>(tracing::bound_axes().size(axes, "pmean"))), dtype);
}

Array pmax(const ArrayOperand& x, const AxisSet& axes) { return reduced_over(ops::primitives::pmax(), x, axes); }
Array pmin(const ArrayOperand& x, const AxisSet& axes) { return reduced_over(ops::primitives::pmin(), x, axes); }

Array pvary(const ArrayOperand& x, const AxisSet& axes) {
  return reduced_over(ops::primitives::pvary(), x, axes.without(tracing::type_in_trace(x).varying));
}

Array all_gather(const ArrayOperand& x, const std::string& axis, std::int64_t dim) {
  tracing::bound_axes().size(axis, __func__);
  expect_whole_batch(__func__, x, axis);
  return collective_along(ops::primitives::all_gather(), x, axis, dim);
}

Array all_gather_invariant(const ArrayOperand& x, const std::string& axis, std::int64_t dim) {
  return collective_along(ops::primitives::all_gather_invariant(), x, axis, dim);
}

Array psum_scatter(const ArrayOperand& x, const std::string& axis, std::int64_t dim) {
  return collective_along(ops::primitives::psum_scatter(), x, axis, dim);
}

Array all_to_all(const ArrayOperand& x, const std::string& axis, std::int64_t split_dim, std::int64_t concat_dim) {
  tracing::bound_axes().size(axis, __func__);
  return api::bind_one(
      ops::primitives::all_to_all(), {x},
      ir::AllToAll{axis, normalize_axis(split_dim, x.ndim(), __func__), normalize_axis(concat_dim, x.ndim(), __func__)}
          .attrs());
}

Array ppermute(const ArrayOperand& x, const std::string& axis,
               const std::vector<std::pair<std::int64_t, std::int64_t>>& pairs) {
  tracing::bound_axes().size(axis, __func__);
  std::vector<std::vector<std::int64_t>> moves;
  for (const auto& [from, to] : pairs) moves.push_back({from, to});
  return api::bind_one(ops::primitives::ppermute(), {x}, {{"axis", axis}, {"pairs", std::move(moves)}});
}

Array pshuffle(const ArrayOperand& x, const std::string& axis, const std::vector<std::int64_t>& permutation) {
  const std::int64_t size = tracing::bound_axes().size(axis, "pshuffle");
  std::vector<std::int64_t> sorted = permutation;
  std::sort(sorted.begin(), sorted.end());
  bool complete = std::ssize(sorted) == size;
  for (std::int64_t i = 0; complete && i < size; ++i) complete = nth(sorted, i) == i;
  if (!complete) {
    throw MeshError(fmt::format(
        "pshuffle: [{}] does not represent a permutation of the {} replicas of {}; name each of 0 to {} once, or use "
        "ppermute to leave some out",
        fmt::join(permutation, ", "), size, axis, size - 1));
  }
  expect_varying("pshuffle", x, {axis}, "use x as it is");
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs;
  for (std::int64_t i = 0; i < size; ++i) pairs.emplace_back(nth(permutation, i), i);
  return ppermute(x, axis, pairs);
}

Array axis_index(const std::string& axis) {
  tracing::bound_axes().size(axis, __func__);
  Array running = tracing::find_axis_index(axis);
  if (running.has_value()) return running;
  return api::bind_one(ops::primitives::axis_index(), {}, {{"axis", axis}});
}

std::int64_t axis_size(const std::string& axis) { return tracing::bound_axes().size(axis, "axis_size"); }

Array block_index(const AxisSet& axes) {
  for (const std::string& axis : axes) tracing::bound_axes().size(axis, "block_index");
  Array index;
  for (const auto& axis : tracing::bound_axes().axes()) {
    if (!axes.contains(axis.name)) continue;
    const Array own = axis_index(axis.name);
    index = index.has_value() ? add(mul(index, axis.size), own) : own;
  }
  return index;
}

AxisSet bound_axes() {
  std::vector<std::string> names;
  for (const auto& axis : tracing::bound_axes().axes()) names.push_back(axis.name);
  return AxisSet(std::move(names));
}

}  // namespace lockstep
