#include "engine/trace/cells.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <lockstep/error.h>

#include "engine/trace/array_state.h"
#include "engine/trace/frame.h"

namespace lockstep {

namespace {

using tracing::open_traces;
using tracing::TraceFrame;

/// How many traces are open down to the one of this number. Throws TraceError where it has closed; `who` is the text's
/// beginning.
std::size_t depth_of(std::uint64_t number, const std::string& who) {
  if (number == 0) return 0;
  const auto& frames = open_traces();
  const auto found = std::ranges::find_if(frames, [&](const auto& frame) { return frame->number == number; });
  if (found == frames.end()) {
    throw TraceError(who +
                     ": the function in which it was made has finished tracing, or is traced on another thread. Use it "
                     "in that function alone, and return what is needed outside.");
  }
  return static_cast<std::size_t>(found - frames.begin()) + 1;
}

/// The cell in a trace within its own; `outside` is its value around that trace.
tracing::OpenCell& opened(TraceFrame& frame, const std::shared_ptr<CellState>& cell, const Array& outside) {
  const auto known = std::ranges::find_if(frame.cells, [&](const auto& open) { return open.cell == cell; });
  if (known != frame.cells.end()) return *known;
  const ir::Var input = frame.builder.input(outside.type());
  frame.cells.push_back({cell, frame.captured.size(), to_array(frame, input, outside.state()->origin), false});
  frame.captured.push_back(outside);
  return frame.cells.back();
}

/// While it lives, the traces inside a level are set aside.
class SetAside {
 public:
  explicit SetAside(std::size_t depth) {
    auto& frames = open_traces();
    const auto first = frames.begin() + static_cast<std::ptrdiff_t>(depth);
    inner_.assign(std::make_move_iterator(first), std::make_move_iterator(frames.end()));
    frames.erase(first, frames.end());
  }
  ~SetAside() {
    auto& frames = open_traces();
    frames.insert(frames.end(), std::make_move_iterator(inner_.begin()), std::make_move_iterator(inner_.end()));
  }
  SetAside(const SetAside&) = delete;
  SetAside& operator=(const SetAside&) = delete;

 private:
  std::vector<std::unique_ptr<TraceFrame>> inner_;
};

/// The number of the example in a trace of examples.
Array index_in(TraceFrame& frame) {
  if (!frame.index) {
    const AxisSet varying = frame.mapping->axis.empty() ? AxisSet() : AxisSet{frame.mapping->axis};
    const ir::Var input = frame.builder.input({int32, {}, varying});
    frame.index = MappedIndex{frame.captured.size(), to_array(frame, input, {.op = "vmap"})};
    frame.captured.emplace_back();
  }
  return frame.index->value;
}

}  // namespace

namespace tracing {

Array read(const std::shared_ptr<CellState>& cell) {
  Array value = cell->value;
  auto& frames = open_traces();
  for (std::size_t i = depth_of(cell->home, cell->options.name); i < frames.size(); ++i) {
    value = opened(*frames[i], cell, value).value;
  }
  return value;
}

void replace(const std::shared_ptr<CellState>& cell, const Array& value) {
  const ArrayType now = type_in_trace(value), before = cell->value.type();
  const std::string text = cell->options.name + " is " + to_string(ArrayType{before.dtype, before.shape, {}}) +
                           ", the value given is " + to_string(now) + "; convert or reshape it";
  if (now.dtype != before.dtype) throw DtypeError(text);
  if (!(now.shape == before.shape)) throw ShapeError(text);
  auto& frames = open_traces();
  if (depth_of(cell->home, cell->options.name) == frames.size()) {
    cell->value = value;
    return;
  }
  read(cell);
  OpenCell& open = opened(*frames.back(), cell, value);
  open.value = value;
  open.written = true;
}

void replace_all(std::span<const TouchedCell> cells, std::span<const Array> values) {
  std::size_t next = 0;
  for (const TouchedCell& touched : cells) {
    if (touched.written) replace(touched.cell, values[next++]);
  }
}

std::size_t count_written(std::span<const TouchedCell> cells) {
  return static_cast<std::size_t>(std::ranges::count_if(cells, &TouchedCell::written));
}

void refuse_written(std::span<const TouchedCell> cells, const std::string& why) {
  const auto found = std::ranges::find_if(cells, &TouchedCell::written);
  if (found != cells.end()) throw TraceError(why + " (it changes " + found->cell->options.name + ")");
}

std::uint64_t innermost_number() { return open_traces().empty() ? 0 : open_traces().back()->number; }

}  // namespace tracing

TraceLevel TraceLevel::current() { return TraceLevel(tracing::innermost_number()); }

bool TraceLevel::is_current() const { return tracing::innermost_number() == number_; }

Array TraceLevel::run(const std::function<Array()>& function) const {
  const SetAside aside(depth_of(number_, "a level"));
  return function();
}

namespace {

/// Of the traces from `depth` on, those of vmaps or, `in_turn`, of scans.
std::vector<MappedAxis> axes_taken(std::size_t depth, bool in_turn) {
  std::vector<MappedAxis> axes;
  auto& frames = open_traces();
  for (std::size_t i = depth; i < frames.size(); ++i) {
    if (!frames[i]->mapping || frames[i]->mapping->in_turn != in_turn) continue;
    const Array index = in_turn ? Array() : index_in(*frames[i]);
    const Mapping& mapping = *frames[i]->mapping;
    axes.push_back({index, mapping.size, mapping.axis, mapping.rows, mapping.varying});
  }
  return axes;
}

}  // namespace

std::vector<MappedAxis> TraceLevel::mapped_axes() const { return axes_taken(depth_of(number_, "a level"), false); }
std::vector<MappedAxis> TraceLevel::scanned_axes() const { return axes_taken(depth_of(number_, "a level"), true); }

Cell::Cell(TraceLevel level, const Array& value, CellOptions options)
    : state_(std::make_shared<CellState>(level.number_, value, std::move(options))) {}
Cell::Cell(const Array& value, CellOptions options) : Cell(TraceLevel::current(), value, std::move(options)) {}

Array Cell::get() const { return tracing::read(state_.pointer()); }
void Cell::set(const Array& value) const { tracing::replace(state_.pointer(), value); }

}  // namespace lockstep
