#include "engine/ops/index/windows.h"

#include <algorithm>
#include <limits>
#include <string>

#include "engine/core/lists.h"
#include "engine/ops/rules/batch.h"
#include "engine/ops/rules/infer.h"
#include "engine/ops/rules/reference.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

namespace {

using ir::InferContext;

Dims ascending_dims(const InferContext& context, std::string_view name, int rank) {
  const Dims& dims = infer::dims_attr(context, name, rank);
  if (!std::is_sorted(dims.begin(), dims.end())) {
    infer::shape_error(context, "ascending " + std::string(name), "sort them");
  }
  return dims;
}

IndexMode read_mode(const InferContext& context) {
  const auto& mode = context.attrs.get<std::string>("mode");
  if (mode == "clip") return IndexMode::clip;
  if (mode == "fill") return IndexMode::fill;
  if (mode != "promise_in_bounds") {
    infer::shape_error(context, "mode clip, fill or promise_in_bounds", "write one of them");
  }
  return IndexMode::promise_in_bounds;
}

void check_batching(const InferContext& context, const WindowMoves& moves, const WindowAttrNames& names) {
  bool fits = moves.operand_batching.size() == moves.indices_batching.size();
  for (std::size_t i = 0; fits && i < moves.operand_batching.size(); ++i) {
    const auto from = static_cast<int>(moves.operand_batching[i]);
    fits = moves.operand[from] == moves.indices[static_cast<int>(moves.indices_batching[i])] &&
           !contains(moves.collapsed, from) && !contains(moves.index_map, from);
  }
  if (!fits) {
    infer::shape_error(context,
                       "as many " + std::string(names.operand_batching) + " as " + std::string(names.indices_batching) +
                           ", of equal extents, none of them in " + std::string(names.collapsed) + " or " +
                           std::string(names.index_map),
                       "pair the dimensions that run together");
  }
}

void read_dims(const InferContext& context, const WindowAttrNames& names, int windows_rank, WindowMoves& moves) {
  infer::expect_dtype(context, 1, infer::integral);
  moves.operand = context.inputs[0].shape;
  moves.indices = context.inputs[1].shape;
  if (moves.indices.rank() == 0) {
    infer::shape_error(context, "indices whose last dimension holds the index vectors", "reshape them to [n,1]");
  }
  const int rank = moves.operand.rank();
  moves.mode = read_mode(context);
  moves.collapsed = ascending_dims(context, names.collapsed, rank);
  moves.index_map = infer::dims_attr(context, names.index_map, rank);
  moves.operand_batching = ascending_dims(context, names.operand_batching, rank);
  moves.indices_batching = infer::dims_attr(context, names.indices_batching, moves.indices.rank() - 1);
  moves.window_dims = ascending_dims(context, names.window_dims, windows_rank);
  if (static_cast<std::int64_t>(moves.index_map.size()) != moves.indices.dim(-1)) {
    infer::shape_error(context,
                       "index vectors of " + std::to_string(moves.index_map.size()) + " numbers, as many as " +
                           std::string(names.index_map) + " names",
                       "give one number per dimension that is indexed, along the last dimension of the indices");
  }
  check_batching(context, moves, names);
  const std::size_t kept = static_cast<std::size_t>(rank) - moves.collapsed.size() - moves.operand_batching.size();
  if (moves.window_dims.size() != kept) {
    infer::shape_error(context, std::to_string(kept) + " numbers in " + std::string(names.window_dims),
                       "name one for each dimension of the operand that is neither collapsed nor batching");
  }
}

std::int64_t vectors(const WindowMoves& moves) { return moves.indices.with(moves.indices.rank() - 1, 1).size(); }

void check_sizes(const InferContext& context, const WindowMoves& moves) {
  for (int d = 0; d < moves.operand.rank(); ++d) {
    const std::int64_t size = nth(moves.sizes, d);
    const bool single = contains(moves.collapsed, d) || contains(moves.operand_batching, d);
    if (single && size != 1) {
      infer::shape_error(context, "windows of extent 1 in dimension " + std::to_string(d) + ", collapsed or batching",
                         "let windows have a dimension for it");
    }
    if (size < 0 || (size > moves.operand[d] && vectors(moves) > 0)) {
      infer::shape_error(
          context, "windows of at most " + std::to_string(moves.operand[d]) + " in dimension " + std::to_string(d),
          "take smaller windows, or no index vector");
    }
  }
}

/// Extents of the windows array: those of a window at `window_dims`, between them the indices' own.
Shape windows_shape(const WindowMoves& moves) {
  const Dims kept = moves.kept();
  const int rank = moves.indices.rank() - 1 + static_cast<int>(kept.size());
  Shape shape;
  int next = 0;
  for (int d = 0; d < rank; ++d) {
    const auto at = std::find(moves.window_dims.begin(), moves.window_dims.end(), d);
    if (at == moves.window_dims.end()) {
      shape.append(moves.indices[next++]);
    } else {
      const std::int64_t dim = nth(kept, at - moves.window_dims.begin());
      shape.append(nth(moves.sizes, dim));
    }
  }
  return shape;
}

/// A number of an index vector; an unsigned one too large for int64 is the largest.
std::int64_t number_at(const ir::ReferenceArray& indices, std::int64_t i) {
  const std::int64_t number = nth(indices.integers(), i);
  const bool large = indices.type.dtype == DType::uint64 && number < 0;
  return large ? std::numeric_limits<std::int64_t>::max() : number;
}

/// Where the window of an index vector begins; false where it is left out.
bool window_start(const WindowMoves& moves, const ir::ReferenceArray& indices, const reference::Index& vector,
                  reference::Index& start) {
  const auto count = static_cast<std::int64_t>(moves.index_map.size());
  const std::int64_t first = reference::offset(Shape(Dims(moves.indices.begin(), moves.indices.end() - 1)), vector);
  start = repeated(moves.operand.rank());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto d = static_cast<std::size_t>(nth(moves.index_map, i));
    const std::int64_t last = moves.operand[static_cast<int>(d)] - moves.sizes[d];
    const std::int64_t number = number_at(indices, first * count + i);
    if (moves.mode == IndexMode::fill && (number < 0 || number > last)) return false;
    start[d] = std::clamp<std::int64_t>(number, 0, last);
  }
  for (std::size_t i = 0; i < moves.operand_batching.size(); ++i) {
    nth(start, moves.operand_batching[i]) = nth(vector, moves.indices_batching[i]);
  }
  return true;
}

}  // namespace

const WindowAttrNames gather_names{"offset_dims", "collapsed_slice_dims", "start_index_map", "operand_batching_dims",
                                   "start_indices_batching_dims"};
const WindowAttrNames scatter_names{"update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims",
                                    "operand_batching_dims", "scatter_indices_batching_dims"};

Attrs renamed(const Attrs& attrs, const WindowAttrNames& from, const WindowAttrNames& to) {
  Attrs result = {{"mode", attrs.at("mode")}};
  for (const auto member : {&WindowAttrNames::window_dims, &WindowAttrNames::collapsed, &WindowAttrNames::index_map,
                            &WindowAttrNames::operand_batching, &WindowAttrNames::indices_batching}) {
    result = result.with(to.*member, attrs.at(from.*member));
  }
  return result;
}

Dims WindowMoves::kept() const {
  Dims dims;
  for (std::int64_t d = 0; d < operand.rank(); ++d) {
    if (!contains(collapsed, d) && !contains(operand_batching, d)) dims.push_back(d);
  }
  return dims;
}

WindowMoves moves_of_gather(const InferContext& context) {
  infer::expect_operands(context, 2);
  WindowMoves moves;
  const auto& offsets = infer::list_attr(context, "offset_dims");
  const int rank = context.inputs[1].shape.rank() - 1 + static_cast<int>(offsets.size());
  if (rank > Shape::max_rank) {
    infer::shape_error(context, "a result of at most " + std::to_string(Shape::max_rank) + " dimensions",
                       "merge dimensions of the indices");
  }
  read_dims(context, gather_names, std::max(rank, 0), moves);
  moves.sizes = infer::list_attr(context, "slice_sizes", moves.operand.rank());
  check_sizes(context, moves);
  moves.windows = windows_shape(moves);
  return moves;
}

WindowMoves moves_of_scatter(const InferContext& context) {
  infer::expect_operands(context, 3);
  if (context.inputs[0].dtype != context.inputs[2].dtype) {
    infer::dtype_error(context, "updates of the operand's dtype", "convert(updates, dtype)");
  }
  WindowMoves moves;
  moves.windows = context.inputs[2].shape;
  read_dims(context, scatter_names, moves.windows.rank(), moves);
  moves.sizes = repeated(moves.operand.rank(), 1);
  const Dims kept = moves.kept();
  for (std::size_t i = 0; i < kept.size(); ++i) {
    nth(moves.sizes, kept[i]) = moves.windows[static_cast<int>(moves.window_dims[i])];
  }
  check_sizes(context, moves);
  const bool fits = moves.windows.rank() == moves.indices.rank() - 1 + static_cast<int>(kept.size()) &&
                    windows_shape(moves) == moves.windows;
  if (!fits) {
    infer::shape_error(context, "updates with the extents of the indices' own dimensions outside update_window_dims",
                       "broadcast or reshape the updates");
  }
  return moves;
}

void for_each_move(const WindowMoves& moves, const ir::ReferenceArray& indices,
                   const std::function<void(std::int64_t, std::int64_t)>& visit) {
  const Dims kept = moves.kept();
  Dims window;
  for (const std::int64_t dim : kept) window.push_back(nth(moves.sizes, dim));
  reference::Index start;
  reference::for_each_index(
      Shape(Dims(moves.indices.begin(), moves.indices.end() - 1)), [&](const reference::Index& vector) {
        const bool inside = window_start(moves, indices, vector, start);
        reference::for_each_index(Shape(window), [&](const reference::Index& within) {
          reference::Index from = start;
          reference::Index to;
          std::size_t next = 0;
          for (std::int64_t d = 0; d < moves.windows.rank(); ++d) {
            const auto at = std::find(moves.window_dims.begin(), moves.window_dims.end(), d);
            if (at == moves.window_dims.end()) {
              to.push_back(vector[next++]);
            } else {
              to.push_back(nth(within, at - moves.window_dims.begin()));
            }
          }
          for (std::size_t i = 0; i < kept.size(); ++i) nth(from, kept[i]) += within[i];
          visit(inside ? reference::offset(moves.operand, from) : -1, reference::offset(moves.windows, to));
        });
      });
}

Attrs batched_attrs(const Attrs& attrs, const WindowAttrNames& names, bool indices_batched) {
  const auto shifted = [&](std::string_view name) { return batch::shifted(attrs.get<Dims>(name)); };
  Attrs result = attrs.with(names.collapsed, shifted(names.collapsed)).with(names.index_map, shifted(names.index_map));
  if (!indices_batched) {
    return result.with(names.window_dims, batch::prepended(0, shifted(names.window_dims)))
        .with(names.operand_batching, shifted(names.operand_batching));
  }
  return result.with(names.window_dims, shifted(names.window_dims))
      .with(names.operand_batching, batch::prepended(0, shifted(names.operand_batching)))
      .with(names.indices_batching, batch::prepended(0, shifted(names.indices_batching)));
}

Attrs gather_attrs(const Dims& offset_dims, const Dims& collapsed, const Dims& index_map, const Dims& sizes,
                   std::string_view mode, const Dims& operand_batching, const Dims& indices_batching) {
  return {{"offset_dims", offset_dims},
          {"collapsed_slice_dims", collapsed},
          {"start_index_map", index_map},
          {"operand_batching_dims", operand_batching},
          {"start_indices_batching_dims", indices_batching},
          {"slice_sizes", sizes},
          {"mode", std::string(mode)}};
}

std::vector<MoveCase> move_cases() {
  return {
      {{5}, {3, 1}, gather_attrs({}, {0}, {0}, {1})},
      {{5}, {4, 1}, gather_attrs({0}, {}, {0}, {2}, "fill"), DType::int64},
      {{4, 3}, {2, 3, 1}, gather_attrs({2}, {0}, {0}, {1, 3}, "fill"), DType::int16},
      {{4, 3}, {5, 2}, gather_attrs({}, {0, 1}, {1, 0}, {1, 1}), DType::uint8},
      {{4, 5, 3}, {3, 2}, gather_attrs({0, 2}, {1}, {0, 1}, {2, 1, 3}, "promise_in_bounds")},
      {{2, 4, 3}, {2, 5, 1}, gather_attrs({2}, {1}, {1}, {1, 1, 3}, "fill", {0}, {0})},
      {{4, 3, 2}, {3, 2, 1}, gather_attrs({}, {0}, {0}, {1, 1, 1}, "clip", {1, 2}, {0, 1})},
      {{3, 2}, {2}, gather_attrs({0}, {1}, {0, 1}, {2, 1}, "fill")},
      {{3, 2}, {4, 0}, gather_attrs({1, 2}, {}, {}, {2, 2})},
      {{1}, {1, 1}, gather_attrs({}, {0}, {0}, {1})},
      {{0, 2}, {0, 1}, gather_attrs({1}, {0}, {0}, {1, 2})},
      {{3, 2}, {2, 1}, gather_attrs({1, 2}, {}, {0}, {0, 2})},
  };
}

ir::SampleInput window_indices(const MoveCase& c) {
  const bool promised = c.attrs.get<std::string>("mode") == "promise_in_bounds";
  if (promised) return samples::input(c.index, c.indices, {0, 3});
  return samples::input(c.index, c.indices, {is_unsigned_integer(c.index) ? 0.0 : -2.0, 6});
}

}  // namespace lockstep::ops
