#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

// Gather and scatter move windows between an operand and an array of windows (gather's result, scatter's updates): one
// window for each index vector, whose numbers say where it begins in the operand. Dimension numbers are XLA's
// (https://openxla.org/xla/operation_semantics, Gather and Scatter), index vectors lie along the last dimension.
namespace lockstep::ops {

/// What an index vector outside the operand means: clip moves its window inside, fill reads zeros and writes nothing,
/// promise_in_bounds says that there is none (and does as clip).
enum class IndexMode : std::uint8_t { clip, fill, promise_in_bounds };

struct WindowMoves {
  Shape operand, indices, windows;
  Dims window_dims;       ///< Of `windows`: those that run through a window, ascending.
  Dims collapsed;         ///< Of the operand: windows have extent 1 there and no dimension for it.
  Dims index_map;         ///< The operand's dimension that each number of an index vector is for.
  Dims operand_batching;  ///< Dimensions of the operand that run with those of the indices in `indices_batching`.
  Dims indices_batching;
  Dims sizes;  ///< Of a window, per dimension of the operand.
  IndexMode mode = IndexMode::clip;

  /// Dimensions of the operand that windows have a dimension for.
  Dims kept() const;
};

/// Names of the attributes, which gather and scatter call differently.
struct WindowAttrNames {
  std::string_view window_dims, collapsed, index_map, operand_batching, indices_batching;
};
extern const WindowAttrNames gather_names, scatter_names;

/// Attributes of the operand's and the indices' dimensions as `from` has them, under the names of `to`.
Attrs renamed(const Attrs& attrs, const WindowAttrNames& from, const WindowAttrNames& to);

/// Throw ShapeError or DtypeError in the name of `context.op` where shapes, dtypes and attributes do not fit.
WindowMoves moves_of_gather(const ir::InferContext& context);
WindowMoves moves_of_scatter(const ir::InferContext& context);

/// Calls `visit(element of the operand, or -1 where mode fill leaves it out; element of the windows)` for index vectors
/// in row-major order, and for each for its window in row-major order.
void for_each_move(const WindowMoves& moves, const ir::ReferenceArray& indices,
                   const std::function<void(std::int64_t, std::int64_t)>& visit);

/// The attributes of the op over a batch: dimension 0 of the operand and the windows, and of the indices where
/// `indices_batched`.
Attrs batched_attrs(const Attrs& attrs, const WindowAttrNames& names, bool indices_batched);

struct MoveCase {
  Shape operand, indices;
  Attrs attrs;  ///< Of gather.
  DType index = DType::int32;
};
/// Cases that gather's and scatter's samples are made of.
std::vector<MoveCase> move_cases();
/// Numbers beyond both ends of small extents, unless the mode promises otherwise.
ir::SampleInput window_indices(const MoveCase& c);
Attrs gather_attrs(const Dims& offset_dims, const Dims& collapsed, const Dims& index_map, const Dims& sizes,
                   std::string_view mode = "clip", const Dims& operand_batching = {},
                   const Dims& indices_batching = {});

}  // namespace lockstep::ops
