#include <fmt/format.h>

#include <lockstep/debug.h>
#include <lockstep/error.h>
#include <lockstep/parallel.h>

#include "engine/api/transforms/bind.h"
#include "engine/ir/effects.h"
#include "engine/ops/primitives.h"
#include "engine/trace/trace.h"

namespace lockstep {

namespace {

/// Stages an effect on the replica's numbers along these axes and the values.
void stage(const ir::Primitive& primitive, const std::vector<std::string>& axes, const std::vector<Array>& values,
           Attrs attrs) {
  std::vector<Array> operands;
  for (const std::string& axis : axes) operands.push_back(axis_index(axis));
  operands.insert(operands.end(), values.begin(), values.end());
  api::bind(primitive, operands, attrs.with("axes", axes).with("batch", std::int64_t{0}));
}

}  // namespace

void detail::debug_print(std::string_view format, const std::vector<Array>& arrays) {
  const std::size_t wanted = ir::format_pieces(format).size() - 1;
  if (wanted != arrays.size()) {
    throw ValueError(
        fmt::format("debug_print: the format \"{}\" takes {} arrays, {} are given", format, wanted, arrays.size()));
  }
  std::vector<std::string> axes;
  for (const auto& axis : tracing::bound_axes().axes()) axes.push_back(axis.name);
  stage(ops::primitives::debug_print(), axes, arrays, {{"format", std::string(format)}});
}

void error_if(const ArrayOperand& predicate, std::string_view message) {
  if (predicate.dtype() != DType::bool_) {
    throw DtypeError(
        fmt::format("error_if: the predicate is {}, it must be bool; compare it: error_if(x != 0, message)",
                    to_string(predicate.type())));
  }
  // What is the same on all replicas is an error of none: the same text in all processes.
  std::vector<std::string> axes;
  const AxisSet varying = predicate.type().varying;
  for (const auto& axis : tracing::bound_axes().axes()) {
    if (varying.contains(axis.name)) axes.push_back(axis.name);
  }
  stage(ops::primitives::error_if(), axes, {predicate}, {{"message", std::string(message)}});
}

}  // namespace lockstep
