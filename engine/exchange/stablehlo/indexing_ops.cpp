#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include <lockstep/control_flow.h>

#include "engine/exchange/stablehlo/element_wise.h"
#include "engine/exchange/stablehlo/importer.h"

namespace lockstep::exchange {
namespace {

/// Index vectors along the last dimension, as they lie here.
Array index_vectors(const OpCall& call, const Array& indices) {
  const std::int64_t along = call.integer({"index_vector_dim"}, 0);
  if (along == indices.ndim()) return expand_dims(indices, -1);
  if (along < 0 || along > indices.ndim()) call.refuse("its index_vector_dim is no dimension of the indices");
  return moveaxis(indices, along, -1);
}

std::vector<Array> take_windows(const OpCall& call) {
  return lax::gather({call.operand(0), index_vectors(call, call.operand(1))},
                     {{"offset_dims", call.integers({"offset_dims"}, {})},
                      {"collapsed_slice_dims", call.integers({"collapsed_slice_dims"}, {})},
                      {"start_index_map", call.integers({"start_index_map"}, {})},
                      {"operand_batching_dims", call.integers({"operand_batching_dims"}, {})},
                      {"start_indices_batching_dims", call.integers({"start_indices_batching_dims"}, {})},
                      {"slice_sizes", call.integers({"slice_sizes"}, {})},
                      {"mode", std::string("clip")}});
}

/// Where the windows of a scatter lie, with index vectors along the last dimension of `indices`.
struct ScatterWindows {
  Array indices;
  Axes update, inserted, map, operand_batching, indices_batching;

  explicit ScatterWindows(const OpCall& call)
      : indices(index_vectors(call, call.operand(1))),
        update(call.integers({"update_window_dims"}, {})),
        inserted(call.integers({"inserted_window_dims"}, {})),
        map(call.integers({"scatter_dims_to_operand_dims"}, {})),
        operand_batching(call.integers({"input_batching_dims", "operand_batching_dims"}, {})),
        indices_batching(call.integers({"scatter_indices_batching_dims"}, {})) {}

  /// Windows that do not fit write nothing.
  Attrs attrs() const {
    return {{"update_window_dims", update},
            {"inserted_window_dims", inserted},
            {"scatter_dims_to_operand_dims", map},
            {"operand_batching_dims", operand_batching},
            {"scatter_indices_batching_dims", indices_batching},
            {"mode", std::string("fill")}};
  }
  /// Batching dimensions as further numbers of the index vectors.
  void write_out_batching(const OpCall& call) {
    if (operand_batching.size() != indices_batching.size()) call.refuse("its batching dimensions are not pairs");
    for (std::size_t i = 0; i < operand_batching.size(); ++i) {
      const Shape shape = indices.shape().with(indices.ndim() - 1, 1);
      const Array places =
          lax::iota({}, {{"dtype", indices.dtype()}, {"shape", shape.to_vector()}, {"dim", indices_batching[i]}})[0];
      indices = concatenate({indices, places}, -1);
      map.push_back(operand_batching[i]);
      inserted.push_back(operand_batching[i]);
    }
    std::ranges::sort(inserted);
    operand_batching.clear();
    indices_batching.clear();
  }
};

/// Joined by a region that is no op: window after window, since windows may meet the same elements.
std::vector<Array> put_in_turn(const OpCall& call, ScatterWindows windows) {
  windows.write_out_batching(call);
  const Array &x = call.operand(0), &updates = call.operand(2);
  Axes order, window, sizes(static_cast<std::size_t>(x.ndim()), 1);
  for (int d = 0; d < updates.ndim(); ++d) {
    if (std::ranges::find(windows.update, d) == windows.update.end()) order.push_back(d);
  }
  order.insert(order.end(), windows.update.begin(), windows.update.end());
  std::size_t next = 0;
  for (int d = 0; d < x.ndim(); ++d) {
    if (std::ranges::find(windows.inserted, d) != windows.inserted.end()) continue;
    if (next == windows.update.size()) call.refuse("its update_window_dims do not fit its operand");
    const std::int64_t extent = updates.dim(static_cast<int>(windows.update[next++]));
    window.push_back(extent);
    sizes[static_cast<std::size_t>(d)] = extent;
  }
  Axes all(window.size());
  std::iota(all.begin(), all.end(), 0);
  const std::int64_t depth = windows.indices.dim(-1);
  const std::int64_t count = depth == 0 ? 1 : windows.indices.size() / depth;
  Axes rows = window;
  rows.insert(rows.begin(), count);
  windows.update = all;  // of one window, whose dimensions are all there are
  const Array vectors = reshape(windows.indices, {count, depth}), given = reshape(transpose(updates, order), rows);
  const auto body = [&](const Array& filled, const std::pair<Array, Array>& row) {
    const Array& at = row.first;
    const Array there = lax::gather({filled, at}, {{"offset_dims", all},
                                                   {"collapsed_slice_dims", windows.inserted},
                                                   {"start_index_map", windows.map},
                                                   {"operand_batching_dims", Axes{}},
                                                   {"start_indices_batching_dims", Axes{}},
                                                   {"slice_sizes", sizes},
                                                   {"mode", std::string("clip")}})[0];
    const Array joined = joined_by_region(call, call.op.regions[0], there, row.second);
    return std::pair(lax::scatter({filled, at, joined}, windows.attrs())[0], zeros({0}));
  };
  return {scan(body, x, std::pair(vectors, given)).first};
}

std::vector<Array> put_windows(const OpCall& call) {
  if (call.operands.size() != 3 || call.op.regions.size() != 1) call.refuse("it takes one array, indices and updates");
  const mlir::Region& region = call.op.regions[0];
  std::string combiner = call.combiner(region);
  Array updates = call.operand(2);
  // a - u; u - a would depend on the order in which updates come.
  if (combiner == "stablehlo.subtract" && dataflow(call, region)[0] == "subtract(#0,#1)") {
    combiner = "stablehlo.add";
    updates = zeros_like(updates) - updates;
  } else if (updates.dtype() == DType::bool_) {
    if (combiner == "stablehlo.or") combiner = "stablehlo.maximum";
    if (combiner == "stablehlo.and") combiner = "stablehlo.minimum";
  }
  const ScatterWindows windows(call);
  const SharedOp* op = find_shared(scatters(), combiner);
  if (op == nullptr) return put_in_turn(call, windows);
  return op->stage({call.operand(0), windows.indices, updates}, windows.attrs());
}

}  // namespace

std::vector<Array> apply_indexing(const OpCall& call) {
  if (call.op.name == "stablehlo.gather") return take_windows(call);
  if (call.op.name == "stablehlo.scatter") return put_windows(call);
  return {};
}

}  // namespace lockstep::exchange
