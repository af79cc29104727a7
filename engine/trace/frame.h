#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/core/cut_layout.h"
#include "engine/ir/builder.h"
#include "engine/trace/cells.h"
#include "engine/trace/trace.h"

// The open traces of this thread, which the tracer and its cells alone touch.
namespace lockstep::tracing {

/// What one trace knows of a cell of an outer one.
struct OpenCell {
  std::shared_ptr<CellState> cell;
  std::size_t captured = 0;  ///< Where its value at the start stands among what was captured.
  Array value;               ///< With what was assigned in this trace so far.
  bool written = false;
};

/// One open trace.
struct TraceFrame {
  TraceFrame(std::uint64_t number, ir::AxisSizes axes) : number(number), builder(std::move(axes)) {}

  std::uint64_t number;
  ir::Builder builder;
  std::vector<Array> captured;
  /// By memory, and by how that lies where it lies cut.
  std::map<std::pair<const backend::Buffer*, const CutLayout*>, std::vector<std::pair<ArrayType, ir::Var>>> concrete;
  std::map<std::pair<std::uint64_t, ir::Var>, ir::Var> outer;
  std::map<std::string, Array> axis_indices;
  std::vector<OpenCell> cells;
  std::optional<Mapping> mapping;
  std::optional<MappedIndex> index;
};

std::vector<std::unique_ptr<TraceFrame>>& open_traces();

/// A value of this trace.
Array to_array(const TraceFrame& frame, ir::Var var, Origin origin);

}  // namespace lockstep::tracing
