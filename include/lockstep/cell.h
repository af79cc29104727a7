#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/owned.h>
#include <lockstep/types.h>

// State within traced functions, for those who build layers of their own on it: what a Scope's variables are made of.
namespace lockstep {

class CellState;

/// One dimension that an enclosing vmap or scan has taken away.
struct MappedAxis {
  Array index;            ///< int32 scalar: which example; empty for a scan.
  std::int64_t size = 0;  ///< How many there are.
  std::string name;       ///< VmapOptions::axis_name.
  /// Whether the mapped arguments lost their first dimension, and the mesh axes they vary along: where these cut a
  /// batch, the examples are its rows.
  bool rows = false;
  AxisSet varying;
};

/// A place among nested functions that are being traced: what is made there can be used in all functions inside it.
class LOCKSTEP_API TraceLevel {
 public:
  /// Inside all functions that are being traced now.
  static TraceLevel current();

  bool is_current() const;
  /// Calls the function at this level, as if the functions inside it were not being traced: what it makes belongs here.
  /// Throws TraceError where the function of this level has finished.
  Array run(const std::function<Array()>& function) const;
  /// The vmaps between this level and the current one, outermost first.
  std::vector<MappedAxis> mapped_axes() const;
  /// The scans and maps over arrays between them, likewise.
  std::vector<MappedAxis> scanned_axes() const;

 private:
  friend class Cell;
  explicit TraceLevel(std::uint64_t number) : number_(number) {}
  std::uint64_t number_;  // 0: no trace is open
};

/// What a cell is called, and what a vmap makes of it.
struct CellOptions {
  std::string name = "cell";  ///< In messages.
  /// Makes one value for all examples of a vmap from values that differ between them, [n, ...]. Without it such values are
  /// a TraceError. `before`: the value before the vmap; `axis`: the vmap's, with an empty index.
  std::function<Array(const Array& before, const Array& of_examples, const MappedAxis& axis)> merge = {};
  /// Whether every example replaces the value for itself, even where all values are the same: a sum of contributions.
  bool per_example = false;
};

/// A value that functions read and replace although a transform traces them: remat, grad, vjp, jit, custom derivatives
/// and cond hand its new value on as a hidden result, scan, fori_loop, while_loop and map carry it from one iteration
/// to the next, vmap reads one value for all examples and merges what they make of it. It belongs to the level it was
/// made at and must not be used when that has finished. A handle: copies are the same cell. (jax.new_ref)
class LOCKSTEP_API Cell {
 public:
  explicit Cell(const Array& value, CellOptions options = {});
  /// At an outer level, to which the value belongs as well.
  Cell(TraceLevel level, const Array& value, CellOptions options = {});

  /// The value here and now.
  Array get() const;
  /// Throws ShapeError or DtypeError where it is of another shape or dtype, TraceError where the cell's level has
  /// finished.
  void set(const Array& value) const;

 private:
  detail::SharedObject<CellState> state_;
};

/// The number of this replica's block among those of the axes, counted in mesh order, the last axis fastest: int32.
/// Throws MeshError where no enclosing map has the axes.
LOCKSTEP_API Array block_index(const AxisSet& axes);

}  // namespace lockstep
