#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/cell.h>

// Values that functions read and replace while they are traced. In an inner trace a cell is a hidden input and, where it
// is replaced, a hidden output; the transform that opened the trace says what becomes of the two.
namespace lockstep {

/// What a Cell points to.
class CellState {
 public:
  CellState(std::uint64_t home, Array value, CellOptions options)
      : home(home), value(std::move(value)), options(std::move(options)) {}

  std::uint64_t home;  ///< The trace it was made in; 0: none was open.
  Array value;         ///< As that trace knows it.
  CellOptions options;
};

/// A cell that a traced function touched. Its value before is the captured array of that number; where it was replaced,
/// its value afterwards is one of the function's last outputs, which stand in the order of the touched cells.
struct TouchedCell {
  std::shared_ptr<CellState> cell;
  std::size_t captured = 0;
  bool written = false;
};

/// Of a trace whose arguments are examples of a batch, or slices that a loop goes through.
struct Mapping {
  std::int64_t size = 0;
  std::string axis;      ///< The axis's name, or empty.
  bool rows = false;     ///< Whether every batched argument is cut in its first dimension.
  AxisSet varying;       ///< What the batched arguments vary along.
  bool in_turn = false;  ///< A loop's, one after the other.
};

/// The number of the example, asked for by somebody: its captured array holds nothing, the transform puts 0, 1, ... there.
struct MappedIndex {
  std::size_t captured = 0;
  Array value;
};

}  // namespace lockstep
