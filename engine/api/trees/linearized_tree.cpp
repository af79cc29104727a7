#include "engine/api/trees/linearized_tree.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/transforms/runtime.h"
#include "engine/ir/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/transform/reverse.h"

namespace lockstep::api {

std::vector<Array> filled(const std::vector<ArrayType>& types, const std::vector<bool>& present, Reader& reader) {
  std::vector<Array> leaves;
  for (std::size_t i = 0; i < types.size(); ++i) {
    leaves.push_back(present[i] ? reader.next() : zeros(types[i].shape, types[i].dtype));
  }
  return leaves;
}

std::vector<bool> with_captured(std::vector<bool> flags, const TracedTree& traced) {
  flags.resize(flags.size() + traced.captured.size(), false);
  return flags;
}

namespace {

bool is_allowed(DType dtype, Leaves allowed) {
  switch (allowed) {
    case Leaves::floats:
      return is_float(dtype);
    case Leaves::complex:
      return is_complex(dtype);
    default:
      return is_inexact(dtype);
  }
}

std::string_view remedy(DType dtype, Leaves allowed) {
  if (!is_inexact(dtype)) {
    return "only float and complex leaves can be differentiated; pass it as another argument, or capture it";
  }
  if (allowed == Leaves::complex) return "a holomorphic function takes complex leaves; convert it";
  return "forward mode has one column for each real number; pass {.holomorphic = true} where the function is "
         "holomorphic, differentiate real and imaginary parts as arguments of their own, or use jvp";
}

}  // namespace

std::vector<bool> active_leaves(std::string_view op, const FlatArguments& flat, const std::vector<ArrayType>& types,
                                const std::vector<int>& argnums, std::size_t arguments, Leaves allowed) {
  std::vector<bool> active(flat.size(), false);
  for (const int argnum : argnums) {
    if (argnum < 0 || static_cast<std::size_t>(argnum) >= arguments) {
      throw ValueError(fmt::format("{}: there is no argument {}, the function takes {}", op, argnum, arguments));
    }
  }
  for (std::size_t i = 0; i < flat.size(); ++i) {
    const int argument = static_cast<int>(flat.argument(i));
    if (std::find(argnums.begin(), argnums.end(), argument) == argnums.end()) continue;
    if (!is_allowed(types[i].dtype, allowed)) {
      throw DtypeError(
          fmt::format("{}: {} is {}; {}", op, flat.path(i), to_string(types[i]), remedy(types[i].dtype, allowed)));
    }
    active[i] = true;
  }
  return active;
}

void check_results(std::string_view op, const ArrayType& result, bool holomorphic) {
  if (holomorphic && !is_complex(result.dtype)) {
    throw DtypeError(
        fmt::format("{}: the function returned {}, but a holomorphic one returns complex numbers; leave out "
                    "holomorphic",
                    op, to_string(result)));
  }
  if (!holomorphic && is_complex(result.dtype)) {
    throw DtypeError(fmt::format(
        "{}: the function returned {}, whose derivative takes a direction; pass {{.holomorphic = true}} where the "
        "function is holomorphic, return real(z), imag(z) or abs(z), or use vjp",
        op, to_string(result)));
  }
}

void check_forward_mode(std::string_view op, const ir::Function& tangents) {
  if (!ir::any_equation(tangents,
                        [](const ir::Equation& e) { return e.primitive == &ops::primitives::custom_vjp_tangents(); }))
    return;
  throw TraceError(
      fmt::format("{}: the function calls a custom_vjp, whose rule has the backward direction alone; use reverse mode "
                  "(grad, vjp), or "
                  "give the function a custom_jvp, which serves both",
                  op));
}

std::shared_ptr<LinearizedTree> linearized(const TreeFunction& function, const std::vector<Tree>& primals,
                                           std::vector<bool> active) {
  FlatArguments flat(primals);
  const std::vector<ArrayType> types = flat.types();
  if (active.empty()) active = inexact_of(types);
  TracedTree traced = trace_tree(function, flat, types);
  const std::vector<ArrayType> outputs = traced.function->output_types();
  std::vector<bool> wanted;  // of a cell nothing has asked for a derivative here
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (is_inexact(outputs[i].dtype)) wanted.push_back(i < traced.results());
  }
  transform::Linearized parts = transform::linearize_wanted(traced.function, with_captured(active, traced), wanted);
  const std::vector<Array> results = call(parts.forward, joined(flat.leaves(), traced.captured));
  Reader reader(results);
  Tree value = traced.received(reader.take(outputs.size()));
  std::vector<Array> residuals = reader.take(static_cast<std::size_t>(parts.residuals));
  return std::make_shared<LinearizedTree>(LinearizedTree{std::move(flat), types, active, std::move(traced),
                                                         std::move(parts), std::move(residuals), std::move(value)});
}

}  // namespace lockstep::api
