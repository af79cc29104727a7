#include <algorithm>
#include <bit>
#include <cstdint>

#include <fmt/format.h>

#include <lockstep/backend/round_up.h>
#include <lockstep/einsum.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/products.h>
#include <lockstep/reductions.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

void check_result(std::string_view op, DType given, DType result) {
  if (result != bool_ && result != DType::key && !api::keeps_a_part(given, result)) return;
  throw DtypeError(
      fmt::format("{}: a product of {} is asked for in {}; expected a number of the same kind or a wider "
                  "one; convert the operands first, or the result",
                  op, name(given), name(result)));
}

/// The operands' dtype, and the one to multiply in.
DType wide_dtype(std::string_view op, DType given, DType result) {
  check_result(op, given, result);
  return promote(given, result);
}

struct Tiles {
  Array start;   ///< [tiles]: the first row of each.
  Array end;     ///< [tiles]: behind the last row of its group; 0 of tiles that are not needed.
  Array group;   ///< [tiles]
  Array places;  ///< [m]: where each row stands in the tiles, flattened; outside of them behind the last group.
};

/// Every group's rows in tiles of `size`, the last one not full.
Tiles tiles_of(const Array& group_sizes, std::int64_t rows, std::int64_t size, std::int64_t count) {
  const std::int64_t groups = group_sizes.size();
  const Array ends = minimum(cumsum(convert(maximum(group_sizes, 0), int32)), rows);
  const Array starts = concatenate({zeros({1}, int32), slice_in_dim(ends, 0, groups - 1, 0)}, 0);
  const Array needed = floor_divide(ends - starts + (size - 1), size);
  const Array tile_ends = cumsum(needed);
  const Array tile_starts = tile_ends - needed;
  const auto of_group = [](const Array& values, const Array& group) { return take(values, group, 0, IndexMode::clip); };
  const Array tile = arange(count);
  const Array group = minimum(searchsorted(tile_ends, tile, Side::right), groups - 1);
  const Array start = of_group(starts, group) + (tile - of_group(tile_starts, group)) * size;
  const Array end = where(tile < slice_in_dim(tile_ends, groups - 1, groups, 0), of_group(ends, group), 0);
  const Array row = arange(rows);
  const Array own = searchsorted(ends, row, Side::right);
  const Array places = of_group(tile_starts, own) * size + (row - of_group(starts, own));
  return {start, end, group, where(own < groups, places, count * size)};
}

}  // namespace

Array dot_general(const ArrayOperand& a, const ArrayOperand& b, const std::pair<Axes, Axes>& contract,
                  const std::pair<Axes, Axes>& batch, DType result) {
  const std::string_view op = ops::primitives::dot_general().name;
  const DType given = api::common_dtype({a, b}), wide = wide_dtype(op, given, result);
  if (!is_narrow_float(given) || wide != float32) {
    return convert(dot_general(convert(a, wide), convert(b, wide), contract, batch), result);
  }
  const auto resolved = [&](const Axes& axes, int rank) {
    Axes all;
    for (const std::int64_t axis : axes) all.push_back(normalize_axis(axis, rank, op));
    return all;
  };
  using Pair = std::vector<std::vector<std::int64_t>>;
  return api::bind_one(ops::primitives::dot_general(), {convert(a, given), convert(b, given)},
                       {{"contract", Pair{resolved(contract.first, a.ndim()), resolved(contract.second, b.ndim())}},
                        {"batch", Pair{resolved(batch.first, a.ndim()), resolved(batch.second, b.ndim())}},
                        {"dtype", float32}});
}

Array matmul(const ArrayOperand& a, const ArrayOperand& b, DType result) {
  const DType given = api::common_dtype({a, b}), wide = wide_dtype("matmul", given, result);
  const bool as_it_is = is_narrow_float(given) && wide == float32 && a.ndim() > 0 && b.ndim() > 0 && b.ndim() <= 2 &&
                        a.dim(-1) == b.dim(std::max(-2, -b.ndim()));
  if (as_it_is) return dot_general(a, b, {{-1}, {b.ndim() == 1 ? 0 : -2}}, {}, result);
  return convert(matmul(convert(a, wide), convert(b, wide)), result);
}

Array einsum(std::string_view equation, const ArrayOperands& operands, DType result) {
  if (operands.empty()) return einsum(equation, operands);
  const DType wide = wide_dtype("einsum", api::common_dtype(std::span<const Array>(operands)), result);
  std::vector<Array> widened;
  for (const Array& operand : operands) widened.push_back(convert(operand, wide));
  return convert(einsum(equation, widened), result);
}

const std::optional<DType> detail::no_dtype;

Array ragged_dot(const ArrayOperand& x, const ArrayOperand& matrices, const ArrayOperand& group_sizes,
                 const std::optional<DType>& result) {
  const bool fits = x.ndim() == 2 && matrices.ndim() == 3 && group_sizes.ndim() == 1 && x.dim(1) == matrices.dim(1) &&
                    matrices.dim(0) == group_sizes.dim(0);
  if (!fits) {
    throw ShapeError(
        fmt::format("ragged_dot: got x {}, matrices {} and group_sizes {}; expected [m, k], [g, k, n] and "
                    "[g]",
                    to_string(x.shape()), to_string(matrices.shape()), to_string(group_sizes.shape())));
  }
  api::expect_integers("ragged_dot", group_sizes, "group_sizes");
  const DType given = api::common_dtype({x, matrices}), dtype = result.value_or(given);
  const std::int64_t rows = x.dim(0), groups = matrices.dim(0), columns = matrices.dim(2);
  check_result("ragged_dot", given, dtype);
  if (rows == 0 || groups == 0) return zeros({rows, columns}, dtype);
  constexpr std::int64_t most = 128;
  const auto share = static_cast<std::uint64_t>(std::max<std::int64_t>(rows / (2 * groups), 1));
  const std::int64_t size = std::min(std::max<std::int64_t>(static_cast<std::int64_t>(std::bit_ceil(share)), 8), most);
  const std::int64_t count = std::min(rows, rows / size + groups);
  const Tiles tiles = tiles_of(group_sizes, rows, size, count);
  const Array row = expand_dims(tiles.start, 1) + expand_dims(arange(size), 0);
  const Operand nothing = 0;
  const Array tile_rows = take(x, where(row < expand_dims(tiles.end, 1), row, rows), 0, IndexMode::fill, nothing);
  const Array of_tiles = take(matrices, tiles.group, 0, IndexMode::promise_in_bounds);
  const Array products = dot_general(tile_rows, of_tiles, {{2}, {1}}, {{0}, {0}}, dtype);
  return take(reshape(products, {count * size, columns}), tiles.places, 0, IndexMode::fill, nothing);
}

}  // namespace lockstep
