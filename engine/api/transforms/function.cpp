#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/function.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/traced_types.h>

#include "engine/api/inspection/lint.h"
#include "engine/api/random/key_tracking.h"
#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/core/quoting.h"
#include "engine/eval/eval.h"
#include "engine/ir/primitive.h"
#include "engine/ir/sub_functions.h"
#include "engine/ir/text/parse.h"
#include "engine/ops/call/implicit.h"
#include "engine/ops/primitives.h"
#include "engine/passes/pass.h"
#include "engine/trace/array_state.h"

namespace lockstep {

struct Function::Impl {
  ir::FunctionPtr function;
  std::vector<Array> captured;  ///< Hidden: the last inputs.
  api::Cuts cuts = {};          ///< How the examples and the captured arrays lay.

  static const Impl& of(const Function& function) { return detail::held(function.impl_, "function"); }

  std::vector<Array> all_arguments(const std::vector<Array>& given) const {
    const std::size_t expected = function->inputs().size() - captured.size();
    if (given.size() != expected) {
      throw ValueError(fmt::format("function: {} arguments given, it takes {}", given.size(), expected));
    }
    for (std::size_t i = 0; i < expected; ++i) {
      const ArrayType& type = function->type(function->inputs()[i]);
      if (given[i].dtype() == type.dtype && given[i].shape() == type.shape) continue;
      throw ShapeError(fmt::format("function: argument {} is {}, it was traced at {}", i,
                                   lockstep::to_string(given[i].type()), lockstep::to_string(type)));
    }
    return api::joined(given, captured);
  }
};

std::vector<Array> detail::captured_arrays(const Function& function) { return Function::Impl::of(function).captured; }

std::string Function::to_string() const { return detail::held(impl_, "function").function->print(0); }
std::uint64_t Function::hash() const { return detail::held(impl_, "function").function->hash(); }

std::vector<ArrayType> Function::input_types() const {
  const Impl& impl = detail::held(impl_, "function");
  std::vector<ArrayType> types = impl.function->input_types();
  types.resize(types.size() - impl.captured.size());
  return types;
}

std::vector<ArrayType> Function::output_types() const {
  return detail::held(impl_, "function").function->output_types();
}

std::int64_t Function::count(std::string_view op) const {
  std::int64_t count = 0;
  ir::for_each_equation(*detail::held(impl_, "function").function,
                        [&](const ir::Equation& equation) { count += equation.primitive->name == op; });
  return count;
}

std::vector<Array> Function::operator()(const std::vector<Array>& arguments) const {
  const Impl& impl = detail::held(impl_, "function");
  return api::call(impl.function, impl.all_arguments(arguments));
}

std::vector<Array> Function::eval(const std::vector<Array>& arguments) const {
  const Impl& impl = detail::held(impl_, "function");
  std::vector<eval::HostArray> inputs;
  for (const Array& argument : impl.all_arguments(arguments)) inputs.push_back(api::host_array(argument));
  std::vector<Array> results;
  for (eval::HostArray& output : eval::eval(*impl.function, inputs, api::plain_backend())) {
    results.push_back(make_array(output.type, std::move(output.buffer)));
  }
  return results;
}

Plan Function::plan() const {
  const Impl& impl = detail::held(impl_, "function");
  const executable::PlanReport compiled = api::compiled(api::on_cut_arguments(impl.function, impl.cuts))->plan();
  Plan plan;
  plan.arena_bytes = static_cast<std::int64_t>(compiled.arena_bytes);
  plan.shard_bytes = static_cast<std::int64_t>(compiled.shard_bytes);
  plan.scratch_bytes = static_cast<std::int64_t>(compiled.scratch_bytes);
  plan.constant_bytes = static_cast<std::int64_t>(compiled.constant_bytes);
  plan.result_bytes = static_cast<std::int64_t>(compiled.result_bytes);
  plan.kernels = compiled.kernels;
  plan.flops = compiled.flops;
  plan.bytes = compiled.bytes;
  plan.has_while_loops = compiled.has_while_loops;
  plan.ops = compiled.ops;
  plan.collective_costs = compiled.collective_costs;
  plan.text = compiled.text;
  ir::for_each_equation(*passes::run_pipeline(impl.function, false), [&](const ir::Equation& equation) {
    const ir::Primitive& primitive = *equation.primitive;
    if (&primitive == &ops::primitives::collective_wait()) {
      ++plan.collectives[equation.attrs.get<std::string>("op")];
    } else if (&primitive != &ops::primitives::pmap() && &primitive != &ops::primitives::reshard() &&
               primitive.traits.collective) {
      ++plan.collectives[primitive.name];
    }
  });
  return plan;
}

void random::check_key_reuse(const Function& function) {
  api::check_keys(*detail::held(function.impl_, "function").function);
}

std::vector<std::string> Function::lint() const {
  const Impl& impl = detail::held(impl_, "function");
  return api::lint(impl.function, impl.function->inputs().size() - impl.captured.size());
}

Function trace(const TreeFunction& function, const std::vector<Tree>& examples) {
  const api::FlatArguments arguments(examples);
  api::TracedTree traced = api::trace_tree(function, arguments, arguments.types());
  api::Cuts cuts = api::cuts_of(api::joined(arguments.leaves(), traced.captured));
  return Function(std::make_shared<Function::Impl>(
      Function::Impl{api::without_cells(traced), std::move(traced.captured), std::move(cuts)}));
}

Function detail::trace_at(const TreeFunction& function, const std::vector<ArrayType>& types) {
  std::vector<Tree> places;
  for (const ArrayType& type : types) places.emplace_back(zeros({}, type.dtype));
  api::TracedTree traced = api::trace_tree(function, api::FlatArguments(places), types);
  return Function(
      std::make_shared<Function::Impl>(Function::Impl{api::without_cells(traced), std::move(traced.captured), {}}));
}

Function parse_function(std::string_view text) {
  auto function = ir::parse(text, ops::find_in_text);
  if (!function->axes().axes().empty()) {
    throw IrError(
        "parse: the whole program binds the axis " + lockstep::quoted(function->axes().axes()[0].name) +
        ", which no map runs; expected axes in the body of a pmap, or of a vmap with an axis name, alone; write "
        "`lambda` without [...] and call the body by pmap");
  }
  return Function(std::make_shared<Function::Impl>(Function::Impl{std::move(function), {}}));
}

std::int64_t collectives_executed() { return api::collectives_run(); }

Function::Function(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

}  // namespace lockstep
