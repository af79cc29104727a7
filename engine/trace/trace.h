#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/array.h>

#include "engine/core/current_layer.h"
#include "engine/ir/function.h"
#include "engine/ir/primitive.h"
#include "engine/trace/cells.h"

namespace lockstep::tracing {

struct TraceFrame;

using Body = std::function<std::vector<Array>(std::span<const Array>)>;

/// A traced function. Its inputs are the given types first, then one per captured array (concrete arrays and values of
/// outer traces that the body used), in order of first use.
struct Traced {
  ir::FunctionPtr function;
  std::vector<Array> captured;
  std::vector<TouchedCell> cells = {};  ///< Values of those replaced are the last outputs.
  std::optional<std::size_t> index =
      {};  ///< Which captured array is the number of the example, where one was asked for.
};

/// Runs `body` once on traced values of the given types. `axes` are bound in addition to those of the enclosing trace.
/// `mapping`: the arguments are one example's. Throws TraceError where the body returns a value of a trace that has closed.
Traced trace(const Body& body, std::span<const ArrayType> types, const ir::AxisSizes& axes = {},
             std::optional<Mapping> mapping = std::nullopt);

/// Whether a trace is open on this thread.
bool is_open();
/// Axes bound in the innermost open trace.
const ir::AxisSizes& bound_axes();
/// The axes along which the rows vary that open vmaps map, each over dimension 0 of all that it maps.
AxisSet axes_of_mapped_rows();
/// In the innermost open trace and those inside of it, axis_index of the axis is this value: the axis is one of replicas that
/// run one after the other.
void set_axis_index(const std::string& axis, const Array& index);
/// That value, or an empty array where the axis is one of a map.
Array find_axis_index(const std::string& axis);
/// Stages one equation in the innermost open trace; concrete operands and those of outer traces are captured.
std::vector<Array> bind(const ir::Primitive& primitive, std::span<const Array> operands, Attrs attrs);
/// Copies a function's equations into the innermost open trace.
std::vector<Array> inline_call(const ir::Function& function, std::span<const Array> arguments);
/// Throws TraceError where the array is a value of a trace that has closed: `use` says who wanted it, the text where it
/// came from.
void check_alive(const Array& array, const std::string& use);
/// The array's type, `varying` included, as seen in the innermost trace.
ArrayType type_in_trace(const Array& array);

/// The layer path under which the innermost open trace stages equations; empty where there is none.
std::string scope_path();

/// While it lives, this thread has no open trace: what a kernel of a program's own calls is run, whoever runs the kernel.
class NoTrace {
 public:
  NoTrace();
  ~NoTrace();
  NoTrace(const NoTrace&) = delete;
  NoTrace& operator=(const NoTrace&) = delete;

 private:
  std::vector<std::unique_ptr<TraceFrame>> hidden_;
};

/// Marks the equations staged in the innermost open trace while it lives with a layer path, and errors made meanwhile.
class ScopeName {
 public:
  explicit ScopeName(std::string path);
  ~ScopeName();
  ScopeName(const ScopeName&) = delete;
  ScopeName& operator=(const ScopeName&) = delete;

 private:
  std::shared_ptr<const std::string> path_;
  place::Layer layer_;
  std::uint64_t trace_ = 0;  // 0: no trace was open
  std::shared_ptr<const std::string> previous_;
};

}  // namespace lockstep::tracing
