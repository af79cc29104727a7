#include <string>

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

/// Windows that do not fit write nothing.
std::vector<Array> put_windows(const OpCall& call) {
  if (call.operands.size() != 3 || call.op.regions.size() != 1) call.refuse("it takes one array, indices and updates");
  const mlir::Region& region = call.op.regions[0];
  std::string combiner = call.combiner(region);
  Array updates = call.operand(2);
  // a - u; u - a would depend on the order in which updates come.
  if (combiner == "stablehlo.subtract" && region.ops[0].operands[0].name == region.arguments[0]) {
    combiner = "stablehlo.add";
    updates = zeros_like(updates) - updates;
  } else if (updates.dtype() == DType::bool_) {
    if (combiner == "stablehlo.or") combiner = "stablehlo.maximum";
    if (combiner == "stablehlo.and") combiner = "stablehlo.minimum";
  }
  const SharedOp* op = find_shared(scatters(), combiner);
  if (op == nullptr)
    call.refuse(
        "a scatter by " + combiner +
        "; there are add, multiply, minimum, maximum, overwriting and subtracting an update from what is there");
  return op->stage({call.operand(0), index_vectors(call, call.operand(1)), updates},
                   {{"update_window_dims", call.integers({"update_window_dims"}, {})},
                    {"inserted_window_dims", call.integers({"inserted_window_dims"}, {})},
                    {"scatter_dims_to_operand_dims", call.integers({"scatter_dims_to_operand_dims"}, {})},
                    {"operand_batching_dims", call.integers({"input_batching_dims", "operand_batching_dims"}, {})},
                    {"scatter_indices_batching_dims", call.integers({"scatter_indices_batching_dims"}, {})},
                    {"mode", std::string("fill")}});
}

}  // namespace

std::vector<Array> apply_indexing(const OpCall& call) {
  if (call.op.name == "stablehlo.gather") return take_windows(call);
  if (call.op.name == "stablehlo.scatter") return put_windows(call);
  return {};
}

}  // namespace lockstep::exchange
