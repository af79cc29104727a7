#include "engine/trace/trace.h"

#include <atomic>
#include <functional>
#include <map>
#include <string_view>
#include <utility>

#include <lockstep/error.h>

#include "engine/core/current_layer.h"
#include "engine/core/process_end.h"
#include "engine/core/stack_room.h"
#include "engine/ir/builder.h"
#include "engine/ops/primitives.h"
#include "engine/trace/array_state.h"
#include "engine/trace/frame.h"

namespace lockstep::tracing {

std::vector<std::unique_ptr<TraceFrame>>& open_traces() {
  thread_local std::vector<std::unique_ptr<TraceFrame>> frames;
  return frames;
}

Array to_array(const TraceFrame& frame, ir::Var var, Origin origin) {
  return Array(std::make_shared<const ArrayState>(frame.builder.type(var), frame.number, var, std::move(origin)));
}

namespace {

using ir::Var;

/// Who uses a value: "add: operand 1".
struct Use {
  std::string_view op;
  std::string_view role;
  std::size_t position;

  std::string text() const { return std::string(op) + ": " + std::string(role) + " " + std::to_string(position); }
};

std::uint64_t next_number() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

TraceFrame& innermost(std::string_view op) {
  auto& frames = open_traces();
  if (frames.empty()) {
    throw TraceError(std::string(op) + ": no trace is open on this thread; stage ops inside a function given to trace");
  }
  return *frames.back();
}

/// The open trace numbered `number`, or null.
TraceFrame* find_open(std::uint64_t number) {
  for (auto& frame : open_traces()) {
    if (frame->number == number) return frame.get();
  }
  return nullptr;
}

std::string text_of(const Origin& origin) {
  if (origin.op.empty()) return "input " + std::to_string(origin.position) + " of the traced function";
  std::string text = origin.position == 0 ? "the result" : "result " + std::to_string(origin.position);
  text += " of " + std::string(origin.op);
  if (origin.scope != nullptr && !origin.scope->empty()) text += " in layer '" + *origin.scope + "'";
  return text;
}

[[noreturn]] void throw_leaked(const Array& array, const std::string& use) {
  throw TraceError(use + ": leaked traced value of type " + to_string(array.type()) + ", " +
                   text_of(array.state()->origin) +
                   ": the function it belongs to has finished tracing (or is traced on another thread), so it can no "
                   "longer be used. Return it from that function, as a result or in aux, instead of storing it in a "
                   "variable outside.");
}

Var capture_concrete(TraceFrame& frame, const Array& array) {
  auto& known = frame.concrete[{array.state()->buffer.get(), array.state()->cut.get()}];
  for (const auto& [type, var] : known) {
    if (type == array.type()) return var;
  }
  const Var var = frame.builder.input(array.type());
  known.emplace_back(array.type(), var);
  frame.captured.push_back(array);
  return var;
}

/// The value in the innermost trace; one of an outer trace is captured by every trace between.
Var capture_outer(const Array& array, const Use& use) {
  Array value = array;
  bool found = false;
  for (auto& frame : open_traces()) {
    if (found) {
      const auto key = std::pair(value.state()->trace, value.state()->var);
      auto known = frame->outer.find(key);
      if (known == frame->outer.end()) {
        known = frame->outer.emplace(key, frame->builder.input(value.type())).first;
        frame->captured.push_back(value);
      }
      value = to_array(*frame, known->second, array.state()->origin);
    }
    found = found || frame->number == array.state()->trace;
  }
  if (!found) throw_leaked(array, use.text());
  return value.state()->var;
}

Var var_of(TraceFrame& frame, const Array& array, const Use& use) {
  if (!array.has_value()) {
    throw ValueError(use.text() + ": " + why_empty(array));
  }
  if (!array.is_traced()) return capture_concrete(frame, array);
  if (array.state()->trace == frame.number) return array.state()->var;
  return capture_outer(array, use);
}

std::vector<Var> vars_of(TraceFrame& frame, std::span<const Array> arrays, std::string_view op, std::string_view role) {
  std::vector<Var> vars;
  vars.reserve(arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) vars.push_back(var_of(frame, arrays[i], {op, role, i}));
  return vars;
}

/// The results of `op`.
std::vector<Array> to_arrays(const TraceFrame& frame, std::span<const Var> vars, std::string_view op) {
  std::vector<Array> arrays;
  arrays.reserve(vars.size());
  const auto& scope = frame.builder.provenance().scope;
  for (std::size_t i = 0; i < vars.size(); ++i) arrays.push_back(to_array(frame, vars[i], {op, i, scope}));
  return arrays;
}

ir::AxisSizes joined_axes(const ir::AxisSizes& outer, const ir::AxisSizes& inner) {
  std::vector<ir::AxisSizes::Axis> axes = outer.axes();
  for (const auto& axis : inner.axes()) {
    if (outer.has(axis.name)) {
      throw MeshError("trace: axis '" + axis.name +
                      "' is bound already by an enclosing function; give the inner axis another name");
    }
    axes.push_back(axis);
  }
  return ir::AxisSizes(std::move(axes));
}

/// Closes the trace it opened, however its body ends.
class OpenTrace {
 public:
  explicit OpenTrace(const ir::AxisSizes& axes) {
    auto& frames = open_traces();
    expect_stack_room();
    const TraceFrame* outer = frames.empty() ? nullptr : frames.back().get();
    auto frame = std::make_unique<TraceFrame>(next_number(), outer ? joined_axes(outer->builder.axes(), axes) : axes);
    if (outer) frame->builder.set_provenance(outer->builder.provenance());
    frames.push_back(std::move(frame));
  }
  ~OpenTrace() { open_traces().pop_back(); }
  OpenTrace(const OpenTrace&) = delete;
  OpenTrace& operator=(const OpenTrace&) = delete;

  TraceFrame& frame() { return *open_traces().back(); }

 private:
  InLibrary inside_{"trace"};
};

}  // namespace

Traced trace(const Body& body, std::span<const ArrayType> types, const ir::AxisSizes& axes,
             std::optional<Mapping> mapping) {
  OpenTrace open(axes);
  TraceFrame& frame = open.frame();
  frame.mapping = std::move(mapping);
  std::vector<Array> inputs;
  inputs.reserve(types.size());
  for (std::size_t i = 0; i < types.size(); ++i) {
    inputs.push_back(to_array(frame, frame.builder.input(types[i]), {.position = i}));
  }
  const std::vector<Array> results = [&] {
    try {
      return body(inputs);
    } catch (const std::bad_function_call&) {
      throw ValueError("trace: an empty std::function was called; expected functions that were given a value");
    }
  }();
  std::vector<Var> outputs = vars_of(frame, results, "trace", "result");
  Traced traced;
  for (const OpenCell& cell : frame.cells) {
    if (cell.written) outputs.push_back(var_of(frame, cell.value, {"trace", cell.cell->options.name, 0}));
    traced.cells.push_back({cell.cell, cell.captured, cell.written});
  }
  traced.function = frame.builder.finish(std::move(outputs));
  traced.captured = std::move(frame.captured);
  if (frame.index) traced.index = frame.index->captured;
  return traced;
}

bool is_open() { return !open_traces().empty(); }

const ir::AxisSizes& bound_axes() {
  static const ir::AxisSizes none;
  return is_open() ? open_traces().back()->builder.axes() : none;
}

AxisSet axes_of_mapped_rows() {
  AxisSet axes;
  for (const auto& frame : open_traces()) {
    const auto& mapping = frame->mapping;
    if (!mapping || !mapping->rows || mapping->in_turn) continue;
    axes = axes.joined(mapping->axis.empty() ? mapping->varying : mapping->varying.without({mapping->axis}));
  }
  return axes;
}

void set_axis_index(const std::string& axis, const Array& index) {
  innermost(ops::primitives::axis_index().name).axis_indices.insert_or_assign(axis, index);
}

Array find_axis_index(const std::string& axis) {
  for (const auto& frame : open_traces()) {
    const auto found = frame->axis_indices.find(axis);
    if (found != frame->axis_indices.end()) return found->second;
  }
  return {};
}

std::vector<Array> bind(const ir::Primitive& primitive, std::span<const Array> operands, Attrs attrs) {
  TraceFrame& frame = innermost(primitive.name);
  const std::vector<Var> inputs = vars_of(frame, operands, primitive.name, "operand");
  frame.builder.set_place(place::call());
  return to_arrays(frame, frame.builder.apply(primitive, inputs, std::move(attrs)), primitive.name);
}

std::vector<Array> inline_call(const ir::Function& function, std::span<const Array> arguments) {
  TraceFrame& frame = innermost("call of a traced function");
  const std::vector<Var> inputs = vars_of(frame, arguments, "call of a traced function", "argument");
  return to_arrays(frame, frame.builder.inline_function(function, inputs), "a call of a traced function");
}

void check_alive(const Array& array, const std::string& use) {
  if (array.is_traced() && find_open(array.state()->trace) == nullptr) throw_leaked(array, use);
}

ArrayType type_in_trace(const Array& array) {
  check_alive(array, "type of a value");
  return array.type();
}

std::string scope_path() {
  if (!is_open()) return {};
  const auto& scope = open_traces().back()->builder.provenance().scope;
  return scope == nullptr ? std::string() : *scope;
}

NoTrace::NoTrace() : hidden_(std::exchange(open_traces(), {})) {}

NoTrace::~NoTrace() { open_traces() = std::move(hidden_); }

ScopeName::ScopeName(std::string path) : path_(std::make_shared<const std::string>(std::move(path))), layer_(path_) {
  if (!is_open()) return;
  TraceFrame& frame = *open_traces().back();
  ir::Provenance provenance = frame.builder.provenance();
  trace_ = frame.number;
  previous_ = provenance.scope;
  provenance.scope = path_;
  frame.builder.set_provenance(std::move(provenance));
}

ScopeName::~ScopeName() {
  TraceFrame* frame = trace_ == 0 ? nullptr : find_open(trace_);
  if (frame == nullptr) return;
  ir::Provenance provenance = frame->builder.provenance();
  provenance.scope = previous_;
  frame->builder.set_provenance(std::move(provenance));
}

}  // namespace lockstep::tracing
