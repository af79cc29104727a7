#include <limits>
#include <optional>
#include <string>

#include <lockstep/convolution.h>

#include "engine/exchange/stablehlo/element_wise.h"
#include "engine/exchange/stablehlo/importer.h"
#include "engine/exchange/stablehlo/windows.h"

namespace lockstep::exchange {
namespace {

/// What a reduction begins with counts too: often it is the neutral element.
Array with_start(const SharedOp& op, const Array& reduced, const Array& start) {
  const SharedOp* both = find_shared(element_wise_ops(), op.name);
  return both->stage({reduced, broadcast_to(start, reduced.shape())}, {})[0];
}

std::string reducer_of(const OpCall& call) {
  if (!call.op.regions.empty()) return call.combiner(call.op.regions[0]);
  const bool is_written = call.op.words.size() > 1 && call.op.words[0] == "applies";
  return is_written ? logical_name(call.op.words[1], call.operand(0).dtype()) : "";
}

/// The region of (value, place) pairs that jax.numpy.argmax (GT) or argmin (LT) is exported with: of equal ones the first.
std::vector<std::string> extremum_region(const std::string& direction) {
  const std::string wins = "or(" + direction + "(#0,#2),NE(#0,#0))";
  return {"select(" + wins + ",#0,#2)", "select(or(" + wins + ",and(EQ(#0,#2),LT(#1,#3))),#1,#3)"};
}

bool starts_neutral(const OpCall& call, bool largest) {
  const auto value = constant_float(call, call.op.operands[2].name);
  const auto place = call.values.origins.find(call.op.operands[3].name);
  if (place == call.values.origins.end() || place->second->name != "stablehlo.constant") return false;
  const mlir::Attribute* zero = OpCall{call.importer, *place->second, call.values, {}}.find({"value"});
  const double infinity = std::numeric_limits<double>::infinity();
  return value == (largest ? -infinity : infinity) && zero != nullptr && zero->text == "0";
}

/// The reduction of (values, places) to the largest and its place that jax.numpy.argmax is exported as; nothing where it is
/// another one.
std::vector<Array> position_of_extremum(const OpCall& call, const Axes& axes) {
  if (call.op.operands.size() != 4 || axes.size() != 1) return {};
  const auto origin = call.values.origins.find(call.op.operands[1].name);
  if (origin == call.values.origins.end() || origin->second->name != "stablehlo.iota" ||
      OpCall{call.importer, *origin->second, call.values, {}}.integer({"dim", "iota_dimension"}, 0) != axes[0]) {
    return {};
  }
  const Array& x = call.operand(0);
  const DType places = call.operand(1).dtype();
  const std::int64_t extent = x.shape()[static_cast<int>(axes[0])];
  const bool is_wide = places == DType::int32 || places == DType::int64;
  const std::vector<std::string> flow = dataflow(call, call.op.regions[0]);
  const bool largest = flow == extremum_region("GT");
  if (extent == 0 || (!is_wide && extent > 128) || (!largest && flow != extremum_region("LT"))) return {};
  const Attrs attrs = {{"axis", axes[0]}, {"dtype", is_wide ? places : DType::int64}};
  const Array value = (largest ? lax::reduce_max : lax::reduce_min)({x}, {{"axes", axes}})[0];
  const Array place = convert((largest ? lax::argmax : lax::argmin)({x}, attrs)[0], places);
  if (starts_neutral(call, largest)) return {value, place};
  const Array first = broadcast_to(call.operand(2), value.shape()), at = broadcast_to(call.operand(3), value.shape());
  return for_each_element(call, call.op.regions[0], {first, at, value, place});
}

std::vector<Array> reduce(const OpCall& call) {
  const Axes axes = call.integers({"dimensions"}, {});
  if (call.operands.size() > 2 && !call.op.regions.empty()) {
    std::vector<Array> found = position_of_extremum(call, axes);
    return found.empty() ? reduced_by_region(call, call.op.regions[0], axes) : found;
  }
  const std::string reducer = reducer_of(call);
  const SharedOp* op = find_shared(reductions(), reducer);
  if (op != nullptr && (call.operands.size() != 2 || call.operand(1).ndim() != 0 ||
                        call.operand(1).dtype() != call.operand(0).dtype())) {
    call.refuse("it takes an array and an initial value, a scalar of its dtype");
  }
  if (op == nullptr) {
    if (!call.op.regions.empty()) return reduced_by_region(call, call.op.regions[0], axes);
    call.refuse("a reduction by " + reducer + "; there are those by add, multiply, maximum, minimum, and, or, xor");
  }
  const Array reduced = op->stage({call.operand(0)}, {{"axes", axes}})[0];
  return {with_start(*op, reduced, call.operand(1))};
}

/// Whether it is the region that jax.lax.cumlogsumexp is exported with, from -infinity on.
bool adds_logarithms(const OpCall& call) {
  const std::string apart = "subtract(#0,#1)",
                    joined = "add(maximum(#0,#1),log_plus_one(exponential(negate(abs(" + apart + ")))))";
  const std::string sum = "select(NE(" + apart + "," + apart + "),add(#0,#1)," + joined + ")";
  return dataflow(call, call.op.regions[0]) == std::vector<std::string>{sum} &&
         constant_float(call, call.op.operands[1].name) == -std::numeric_limits<double>::infinity();
}

std::vector<Array> reduce_windows(const OpCall& call) {
  const Array& x = call.operand(0);
  if (call.op.regions.size() != 1) call.refuse("the function that joins two elements is missing");
  const Windows windows(call, x.ndim());
  const bool is_single =
      call.operands.size() == 2 && call.operand(1).ndim() == 0 && call.operand(1).dtype() == x.dtype();
  const std::string reducer = is_single ? call.combiner(call.op.regions[0]) : "";
  if (const auto along = is_single ? windows.cumulative(x.shape()) : std::nullopt) {
    const Attrs attrs = {{"axis", along->first}, {"reverse", along->second}};
    if (adds_logarithms(call)) return lax::cumlogsumexp({x}, attrs);
    if (const SharedOp* op = find_shared(cumulative_ops(), reducer)) {
      return {with_start(*op, op->stage({x}, attrs)[0], call.operand(1))};
    }
  }
  const Shape shape = windows.result(x.shape());
  const bool is_extremum = reducer == "stablehlo.maximum" || reducer == "stablehlo.minimum";
  const bool is_whole = shape.size() > 0 && windows.all_hold_elements(x.shape());
  if (reducer != "stablehlo.add" && (!is_extremum || !is_whole)) {
    return windows_by_region(call, call.op.regions[0], windows);
  }
  if (shape.size() == 0) return {zeros(shape, x.dtype())};
  const auto reduce_windows_of = reducer == "stablehlo.add"       ? reduce_window_sum
                                 : reducer == "stablehlo.maximum" ? reduce_window_max
                                                                  : reduce_window_min;
  return {with_start(*find_shared(reductions(), reducer), reduce_windows_of(x, windows.options()), call.operand(1))};
}

std::vector<Array> compare_call(const OpCall& call) {
  const Comparison comparison = comparison_of(call, call.op);
  const SharedOp* op = find_shared(comparisons(), comparison.direction);
  if (op == nullptr) {
    call.refuse("a comparison '" + comparison.direction + "'; there are EQ, NE, LT, LE, GT and GE");
  }
  if (!comparison.is_total()) return op->stage(call.operands, {});
  if (!is_float(call.operand(0).dtype()) || call.operand(1).dtype() != call.operand(0).dtype()) {
    call.refuse("TOTALORDER of " + to_string(call.operand(0).type()) + "; expected floats of one dtype");
  }
  return op->stage({total_order(call.operand(0)), total_order(call.operand(1))}, {});
}

}  // namespace

std::vector<Array> apply_reduction(const OpCall& call) {
  const std::string& name = call.op.name;
  if (name == "stablehlo.reduce") return reduce(call);
  if (name == "stablehlo.reduce_window") return reduce_windows(call);
  if (name == "stablehlo.select_and_scatter") return select_and_scatter(call);
  if (name == "stablehlo.sort") return sort_call(call);
  if (name == "chlo.top_k" || (name == "stablehlo.composite" && call.op.symbol == "chlo.top_k")) {
    const Array& x = call.operand(0);
    const bool of_truth = x.dtype() == DType::bool_;
    std::vector<Array> few = lax::top_k({of_truth ? convert(x, int8) : x}, {{"k", call.integer({"k"}, 1)}});
    if (of_truth) few[0] = convert(few[0], bool_);
    return few;
  }
  if (name == "stablehlo.compare") return compare_call(call);
  return {};
}

}  // namespace lockstep::exchange
