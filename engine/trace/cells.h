#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "engine/trace/touched_cells.h"

namespace lockstep::tracing {

/// The cell's value in the innermost trace. Throws TraceError where the cell's own trace has closed.
Array read(const std::shared_ptr<CellState>& cell);
/// Throws ShapeError or DtypeError where the value is of another type.
void replace(const std::shared_ptr<CellState>& cell, const Array& value);
/// Takes over what a function has left in the cells that it replaced.
void replace_all(std::span<const TouchedCell> cells, std::span<const Array> values);
std::size_t count_written(std::span<const TouchedCell> cells);
/// Throws TraceError where a cell was replaced: for functions whose state would be lost. `why`: "pmap: ...".
void refuse_written(std::span<const TouchedCell> cells, const std::string& why);

/// The number of the innermost open trace; 0: none is open.
std::uint64_t innermost_number();

}  // namespace lockstep::tracing
