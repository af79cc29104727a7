#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "engine/exchange/stablehlo/element_wise.h"
#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

/// XLA's dimension numbers, under gather's names.
struct Numbers {
  Integers window, collapsed, map, operand_batching, indices_batching;
  std::int64_t index_vector_dim = 0;

  std::string gather(const Integers& sizes) const {
    return fmt::format(
        "dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, operand_batching_dims = "
        "{}, "
        "start_indices_batching_dims = {}, start_index_map = {}, index_vector_dim = {}>, indices_are_sorted = false, "
        "slice_sizes = {}",
        list_attribute(window), list_attribute(collapsed), list_attribute(operand_batching),
        list_attribute(indices_batching), list_attribute(map), index_vector_dim, array_attribute(sizes));
  }
  std::string scatter() const {
    return fmt::format(
        "indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, "
        "inserted_window_dims = {}, input_batching_dims = {}, scatter_indices_batching_dims = {}, "
        "scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, unique_indices = false",
        list_attribute(window), list_attribute(collapsed), list_attribute(operand_batching),
        list_attribute(indices_batching), list_attribute(map), index_vector_dim);
  }
};

/// `name` is the op that joins what is there and an update; "" overwrites.
Term scatter_by(const Lowering& l, std::string_view name, const Term& operand, const Term& indices, const Term& updates,
                const Numbers& numbers) {
  const ArrayType scalar{operand.type.dtype, {}, {}};
  const std::string block = l.out.region({scalar, scalar}, [&](const Terms& pair) {
    return Terms{name.empty() ? pair[1] : l.out.binary(name, pair[0], pair[1])};
  });
  return l.out.ops("stablehlo.scatter", {operand, indices, updates}, {operand.type}, numbers.scatter(), {block})[0];
}

/// Indices moved inside [0, last].
Term clamped(const Lowering& l, const Term& indices, std::int64_t last) {
  const ArrayType scalar{indices.type.dtype, {}, {}};
  return l.out.op(
      "stablehlo.clamp",
      {l.out.splat_integer(scalar, 0), indices, l.out.splat_integer(scalar, std::max<std::int64_t>(last, 0))},
      indices.type);
}

Numbers of_rows(int index_rank, int rank) {
  Numbers numbers{.window = {}, .collapsed = {0}, .map = {0}, .operand_batching = {}, .indices_batching = {}};
  for (int d = 1; d < rank; ++d) numbers.window.push_back(index_rank + d - 1);
  numbers.index_vector_dim = index_rank;
  return numbers;
}
Term zeros_of(const Lowering& l) { return l.out.zeros(l.type()); }
/// There a slice must fit into its operand even where nothing is read.
bool reads_nothing(const Lowering& l) { return l.x().type.shape.size() == 0 || l.type().shape.size() == 0; }
Terms rows(const Lowering& l) {
  if (reads_nothing(l)) return {zeros_of(l)};
  Integers sizes = l.x().type.shape.to_vector();
  sizes[0] = 1;
  const Numbers numbers = of_rows(l.operands[1].type.shape.rank(), l.x().type.shape.rank());
  return {l.out.op("stablehlo.gather", l.operands, l.type(), numbers.gather(sizes))};
}
Terms rows_added(const Lowering& l) {
  const Term indices = clamped(l, l.operands[0], l.type().shape[0] - 1);
  return {scatter_by(l, "stablehlo.add", zeros_of(l), indices, l.operands[1],
                     of_rows(indices.type.shape.rank(), l.type().shape.rank()))};
}

Numbers along(std::int64_t axis, int rank) {
  Numbers numbers{.window = {}, .collapsed = {axis}, .map = {axis}, .operand_batching = {}, .indices_batching = {}};
  for (int d = 0; d < rank; ++d) {
    if (d == axis) continue;
    numbers.operand_batching.push_back(d);
    numbers.indices_batching.push_back(d);
  }
  numbers.index_vector_dim = rank;
  return numbers;
}
Terms taken_along(const Lowering& l) {
  if (reads_nothing(l)) return {zeros_of(l)};
  const int rank = l.x().type.shape.rank();
  const Numbers numbers = along(l.attrs().get<std::int64_t>("axis"), rank);
  return {
      l.out.op("stablehlo.gather", l.operands, l.type(), numbers.gather(Integers(static_cast<std::size_t>(rank), 1)))};
}
Terms added_along(const Lowering& l) {
  const auto axis = l.attrs().get<std::int64_t>("axis");
  const Term indices = clamped(l, l.operands[0], l.attrs().get<std::int64_t>("size") - 1);
  return {scatter_by(l, "stablehlo.add", zeros_of(l), indices, l.operands[1], along(axis, l.type().shape.rank()))};
}

/// Whether each index vector's window lies inside: where not, the result is 0.
Term windows_inside(const Lowering& l, const Numbers& numbers, const Integers& sizes) {
  const Term& indices = l.operands[1];
  const int last = indices.type.shape.rank() - 1;
  Term inside;
  for (std::size_t i = 0; i < numbers.map.size(); ++i) {
    const auto dim = static_cast<std::size_t>(numbers.map[i]);
    Integers start(static_cast<std::size_t>(last) + 1, 0), limit = indices.type.shape.to_vector();
    start.back() = static_cast<std::int64_t>(i);
    limit.back() = start.back() + 1;
    const ArrayType column{indices.type.dtype, indices.type.shape.with(last, 1), {}};
    const Term numbers_i =
        l.out.op("stablehlo.slice", {indices}, column,
                 "limit_indices = " + array_attribute(limit) + ", start_indices = " + array_attribute(start) +
                     ", strides = " + array_attribute(Integers(start.size(), 1)));
    const Term low = l.out.compare("GE", numbers_i, l.out.splat_integer(column, 0));
    const std::int64_t most = l.x().type.shape[static_cast<int>(dim)] - sizes[dim];
    const Term both =
        l.out.binary("stablehlo.and", low, l.out.compare("LE", numbers_i, l.out.splat_integer(column, most)));
    inside = i == 0 ? both : l.out.binary("stablehlo.and", inside, both);
  }
  Integers shape = indices.type.shape.to_vector();
  shape.pop_back();
  return l.out.reshape(inside, shape);
}
Terms gathered(const Lowering& l) {
  if (reads_nothing(l)) return {zeros_of(l)};
  Numbers numbers{l.attrs().get<Integers>("offset_dims"), l.attrs().get<Integers>("collapsed_slice_dims"),
                  l.attrs().get<Integers>("start_index_map"), l.attrs().get_or<Integers>("operand_batching_dims", {}),
                  l.attrs().get_or<Integers>("start_indices_batching_dims", {})};
  numbers.index_vector_dim = l.operands[1].type.shape.rank() - 1;
  const auto sizes = l.attrs().get<Integers>("slice_sizes");
  const Term found = l.out.op("stablehlo.gather", {l.x(), l.operands[1]}, l.type(), numbers.gather(sizes));
  if (l.attrs().get<std::string>("mode") != "fill" || numbers.map.empty()) return {found};
  Integers dims;
  for (int d = 0; d < l.type().shape.rank(); ++d) {
    if (std::ranges::find(numbers.window, d) == numbers.window.end()) dims.push_back(d);
  }
  const Term inside = l.out.broadcast(windows_inside(l, numbers, sizes), l.type().shape, dims);
  return {l.out.select(inside, found, zeros_of(l))};
}

/// Index vectors whose windows lie inside: XLA drops those that do not.
Term moved_inside(const Lowering& l, const Numbers& numbers) {
  const Term& indices = l.operands[1];
  const Shape &shape = l.x().type.shape, &updates = l.operands[2].type.shape;
  const auto depth = static_cast<std::int64_t>(numbers.map.size());
  if (depth == 0) return indices;
  Integers sizes(static_cast<std::size_t>(shape.rank()), 1);
  std::size_t next = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    const auto among = [&](const Integers& dims) { return std::ranges::find(dims, d) != dims.end(); };
    if (among(numbers.collapsed) || among(numbers.operand_batching)) continue;
    sizes[static_cast<std::size_t>(d)] = updates[static_cast<int>(numbers.window[next++])];
  }
  Integers last;
  for (const std::int64_t d : numbers.map) {
    last.push_back(std::max<std::int64_t>(0, shape[static_cast<int>(d)] - sizes[static_cast<std::size_t>(d)]));
  }
  const ArrayType row{indices.type.dtype, Shape{depth}, {}};
  const Term most = l.out.op("stablehlo.constant", {}, row,
                             fmt::format("value = dense<{}> : {}", list_attribute(last), tensor_type(row)));
  const Term above = l.out.binary("stablehlo.maximum", indices, l.out.splat_integer(indices.type, 0));
  return l.out.binary("stablehlo.minimum", above,
                      l.out.broadcast(most, indices.type.shape, {indices.type.shape.rank() - 1}));
}

Terms scatter_rule(const Lowering& l) {
  Numbers numbers{l.attrs().get<Integers>("update_window_dims"), l.attrs().get<Integers>("inserted_window_dims"),
                  l.attrs().get<Integers>("scatter_dims_to_operand_dims"),
                  l.attrs().get_or<Integers>("operand_batching_dims", {}),
                  l.attrs().get_or<Integers>("scatter_indices_batching_dims", {})};
  numbers.index_vector_dim = l.operands[1].type.shape.rank() - 1;
  const bool clip = l.attrs().get<std::string>("mode") == "clip";
  return {scatter_by(l, find_shared(scatters(), *l.equation.primitive)->name, l.x(),
                     clip ? moved_inside(l, numbers) : l.operands[1], l.operands[2], numbers)};
}

/// [N, spatial..., C] as [N, plane, C].
Term as_planes(const Lowering& l, const Term& x) {
  const Shape& shape = x.type.shape;
  std::int64_t plane = 1;
  for (int d = 1; d + 1 < shape.rank(); ++d) plane *= shape[d];
  return l.out.reshape(x, {shape[0], plane, shape.dim(-1)});
}
Terms maxima_gathered(const Lowering& l) {
  if (reads_nothing(l)) return {zeros_of(l)};
  const Term x = as_planes(l, l.x()), indices = as_planes(l, l.operands[1]);
  const Term found =
      l.out.op("stablehlo.gather", {x, indices}, {x.type.dtype, indices.type.shape, {}}, along(1, 3).gather({1, 1, 1}));
  return {l.out.reshape(found, l.type().shape.to_vector())};
}
Terms maxima_scattered(const Lowering& l) {
  if (reads_nothing(l)) return {zeros_of(l)};
  const Term start = as_planes(l, zeros_of(l));
  const Term indices = clamped(l, as_planes(l, l.x()), start.type.shape[1] - 1);
  const Term sums = scatter_by(l, "stablehlo.add", start, indices, as_planes(l, l.operands[1]), along(1, 3));
  return {l.out.reshape(sums, l.type().shape.to_vector())};
}

}  // namespace

LoweringRule indexing_rule(const ir::Primitive& primitive) {
  if (find_shared(scatters(), primitive) != nullptr) return scatter_rule;
  static const std::map<const ir::Primitive*, LoweringRule> rules = {
      {&primitives::gather_rows(), rows},
      {&primitives::scatter_add_rows(), rows_added},
      {&primitives::take_along_axis(), taken_along},
      {&primitives::scatter_add_along_axis(), added_along},
      {&primitives::gather(), gathered},
      {&primitives::window_gather(), maxima_gathered},
      {&primitives::window_scatter(), maxima_scattered},
  };
  const auto found = rules.find(&primitive);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace lockstep::exchange
