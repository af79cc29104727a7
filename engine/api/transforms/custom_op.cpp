#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/custom_op.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>

#include "engine/api/transforms/bind.h"
#include "engine/api/transforms/custom_kernel.h"
#include "engine/api/transforms/runtime.h"
#include "engine/ops/call/custom_call.h"
#include "engine/ops/call/custom_rules.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/sub_function.h"
#include "engine/trace/trace.h"

namespace lockstep {

namespace {

using OptionsPtr = std::shared_ptr<const CustomOpOptions>;

void check_options(const CustomOpOptions& options) {
  const auto refuse = [&](std::string_view what) {
    throw ValueError(fmt::format("CustomOp \"{}\": {}", options.name, what));
  };
  if (options.name.empty()) refuse("it needs a name");
  if (!options.infer) refuse("it needs a shape rule, infer: types of the operands to types of the results");
  if (!options.kernel == !options.callback) refuse("it needs a kernel or a callback, one of both");
  if (options.vmap && options.vmap_method != VmapMethod::refuse)
    refuse("it has a vmap_method and a rule, vmap; give one");
  if (options.vjp && options.jvp) refuse("it has a vjp and a jvp; give one");
}

/// Axes of a program that no enclosing trace binds: those that a rule traced for it has to be given.
ir::AxisSizes unbound_axes(const ir::Builder& builder) {
  std::vector<ir::AxisSizes::Axis> axes;
  for (const auto& axis : builder.axes().axes()) {
    if (!tracing::bound_axes().has(axis.name)) axes.push_back(axis);
  }
  return ir::AxisSizes(std::move(axes));
}

/// The rule of a batch, traced where the op is batched and written into the program there.
std::vector<ir::Value> traced_rule(const CustomOpOptions& options, const ir::CustomOp& op,
                                   const ir::BatchContext& context) {
  std::vector<ArrayType> types;
  std::vector<ir::Var> operands;
  for (const ir::Value& operand : context.inputs) {
    types.push_back(operand.type());
    operands.push_back(operand.var());
  }
  const tracing::Traced traced =
      tracing::trace([&](std::span<const Array> inputs) { return options.vmap(inputs, context.batched, context.size); },
                     types, unbound_axes(context.builder));
  if (!traced.captured.empty() || tracing::count_written(traced.cells) != 0) {
    throw TraceError(op.text() + ": its rule for vmap uses an array from outside; make it an operand of the op");
  }
  std::vector<ir::Value> results;
  for (const ir::Var v : context.builder.inline_function(*traced.function, operands)) {
    results.emplace_back(context.builder, v);
  }
  return results;
}

// ---- derivatives of an equation. What a program calls first is a custom_vjp or a custom_jvp, whose rules hold such
// equations: so these are what second derivatives ask for, by the same rules, traced where they are asked for.

using Types = std::vector<ArrayType>;

ir::CustomOpPtr constant_op(const Array& array);

Types inexact_types(const Types& types) {
  Types kept;
  std::copy_if(types.begin(), types.end(), std::back_inserter(kept),
               [](const ArrayType& t) { return is_inexact(t.dtype); });
  return kept;
}

/// One array for each type: the given ones for floats, zeros for the rest.
std::vector<Array> with_zeros_for_integers(const Types& types, std::span<const Array> given) {
  std::vector<Array> arrays;
  std::size_t next = 0;
  for (const ArrayType& type : types) {
    arrays.push_back(is_inexact(type.dtype) ? given[next++] : zeros(type.shape, type.dtype));
  }
  return arrays;
}

/// What a rule returned for these types, without integers, zeros for what is empty.
std::vector<Array> checked_results(const char* rule, const std::vector<Array>& given, const Types& types) {
  if (given.size() != types.size()) {
    throw StateError(fmt::format("its {} returned {} arrays; expected {}", rule, given.size(), types.size()));
  }
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!is_inexact(types[i].dtype)) continue;
    arrays.push_back(given[i].has_value() ? given[i] : zeros(types[i].shape, types[i].dtype));
    const std::string text = fmt::format("array {} that its {} returned is {}; expected {}", i, rule,
                                         to_string(arrays.back().type()), to_string(types[i]));
    if (arrays.back().dtype() != types[i].dtype) throw DtypeError(text);
    if (!(arrays.back().shape() == types[i].shape)) throw ShapeError(text);
  }
  return arrays;
}

/// An equation custom_call, as one example sees it.
struct ExampleCall {
  explicit ExampleCall(const ir::JvpContext& context)
      : context(context), call(ir::CustomCall::of(context.attrs, context.inputs.size())) {
    for (std::size_t i = 0; i < context.inputs.size(); ++i) operands.push_back(of_one(context.inputs[i], i));
    for (const ir::Value& result : context.outputs) results.push_back(of_one(result, context.inputs.size()));
  }

  /// (operand..., result..., `more`...) -> what the rule returns, traced; arrays that it closed over are made inside.
  ir::FunctionPtr traced(const char* rule, const tracing::Body& body, const Types& more) const {
    Types types = operands;
    ops::sub_function::append(types, results);
    ops::sub_function::append(types, more);
    const tracing::Traced traced = tracing::trace(body, types, unbound_axes(context.builder));
    if (tracing::count_written(traced.cells) != 0) throw TraceError(fmt::format("its {} changes state", rule));
    ir::Builder builder(traced.function->axes());
    std::vector<ir::Var> inputs;
    for (const ArrayType& type : types) inputs.push_back(builder.input(type));
    for (const Array& array : traced.captured) {
      if (array.is_traced()) {
        throw TraceError(fmt::format("its {} uses a traced value from outside; make it an operand of the op", rule));
      }
      inputs.push_back(builder.apply(ops::custom_call(), {}, ir::CustomCall{constant_op(array)}.attrs())[0]);
    }
    return builder.finish(builder.inline_function(*traced.function, inputs));
  }

  /// A rule over all mapped dimensions. `indices` are the operands that are floats: a jvp takes a tangent for each of them,
  /// a vjp gives a cotangent, which `sums` adds up over examples that share the operand.
  ir::FunctionPtr over_examples(ir::FunctionPtr f, const std::vector<std::size_t>& indices, bool sums) const {
    for (std::size_t level = call.sizes.size(); level-- > 0;) {
      const auto is_mapped = [&](std::size_t i) { return call.mapped[level][i] != 0; };
      std::vector<bool> in;
      for (std::size_t i = 0; i < operands.size(); ++i) in.push_back(is_mapped(i));
      in.resize(in.size() + results.size(), true);
      if (!sums) {
        for (const std::size_t i : indices) in.push_back(is_mapped(i));
      }
      in.resize(f->inputs().size(), true);
      f = context.transforms
              ->vmap(f, in, std::vector<bool>(f->outputs().size(), true), call.sizes[level], std::string())
              .function;
      if (!sums) continue;
      ir::Builder builder(f->axes());
      std::vector<ir::Var> inputs;
      for (const ArrayType& type : f->input_types()) inputs.push_back(builder.input(type));
      std::vector<ir::Var> outputs = builder.inline_function(*f, inputs);
      for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (!is_mapped(indices[k])) outputs[k] = ops::reduce_sum({builder, outputs[k]}, {0}).var();
      }
      f = builder.finish(std::move(outputs));
    }
    return f;
  }

  /// Which operands are floats.
  std::vector<std::size_t> float_operands() const {
    std::vector<std::size_t> indices;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (is_inexact(operands[i].dtype)) indices.push_back(i);
    }
    return indices;
  }

  /// A tangent for each result from those of the floats.
  std::vector<ir::Tangent> by_result(std::span<const ir::Tangent> given) const {
    std::vector<ir::Tangent> tangents;
    std::size_t next = 0;
    for (const ir::Value& result : context.outputs) {
      tangents.emplace_back();
      if (!is_inexact(result.dtype())) continue;
      if (const ir::Tangent& tangent = given[next++]) tangents.back() = ops::pvary(*tangent, result.type().varying);
    }
    return tangents;
  }

  const ir::JvpContext& context;
  ir::CustomCall call;
  Types operands;
  Types results;

 private:
  /// The type without mapped dimensions; results have all.
  ArrayType of_one(const ir::Value& value, std::size_t operand) const {
    ArrayType type = value.type();
    for (std::size_t level = 0; level < call.sizes.size(); ++level) {
      if (operand >= context.inputs.size() || call.mapped[level][operand] != 0) type.shape = type.shape.erase(0);
    }
    return type;
  }
};

std::vector<ir::Tangent> tangents_by_jvp(const CustomOpOptions& options, const ExampleCall& example) {
  const std::size_t n = example.operands.size(), m = example.results.size();
  const auto body = [&](std::span<const Array> in) {
    const std::vector<Array> tangents = with_zeros_for_integers(example.operands, in.subspan(n + m));
    return checked_results("jvp", options.jvp(in.first(n), in.subspan(n, m), tangents), example.results);
  };
  const std::vector<std::size_t> floats = example.float_operands();
  const ir::FunctionPtr rule =
      example.over_examples(example.traced("jvp", body, inexact_types(example.operands)), floats, false);
  const ir::JvpContext& context = example.context;
  std::vector<ir::Tangent> given(context.inputs.begin(), context.inputs.end());
  given.insert(given.end(), context.outputs.begin(), context.outputs.end());
  for (const std::size_t i : floats) given.push_back(context.tangents[i]);
  return example.by_result(ops::call::inlined_without_zeros(context.builder, *rule, given));
}

/// Tangents that only a transposition can make something of.
std::vector<ir::Tangent> tangents_by_vjp(const CustomOpOptions& options, const ExampleCall& example) {
  const std::size_t n = example.operands.size(), m = example.results.size();
  const auto body = [&](std::span<const Array> in) {
    const std::vector<Array> cotangents = with_zeros_for_integers(example.results, in.subspan(n + m));
    return checked_results("vjp", options.vjp(in.first(n), in.subspan(n, m), cotangents), example.operands);
  };
  const std::vector<std::size_t> floats = example.float_operands();
  const ir::FunctionPtr rule =
      example.over_examples(example.traced("vjp", body, inexact_types(example.results)), floats, true);
  const ir::JvpContext& context = example.context;
  std::vector<ir::Value> given(context.inputs.begin(), context.inputs.end());
  given.insert(given.end(), context.outputs.begin(), context.outputs.end());
  const auto residuals = static_cast<std::int64_t>(given.size());
  std::vector<AxisSet> varying;
  for (const std::size_t i : floats) {
    const ArrayType& type = context.inputs[i].type();
    const ir::Tangent& tangent = context.tangents[i];
    given.push_back(tangent ? ops::pvary(*tangent, type.varying) : ops::call::typed_zeros(context.builder, type));
    varying.push_back(type.varying);
  }
  const ir::FunctionPtr backward = ops::call::cotangents_varying_as(rule, varying);
  const std::vector<ir::Value> all =
      ops::apply(ops::primitives::custom_vjp_tangents(), given,
                 {{"bwd", ops::sub_function::attribute(backward)}, {"residuals", residuals}});
  return example.by_result(std::vector<ir::Tangent>(all.begin(), all.end()));
}

class TracedOp final : public ir::CustomOp {
 public:
  explicit TracedOp(OptionsPtr options) : ir::CustomOp(options->name), options_(std::move(options)) {}

  std::vector<ArrayType> infer(std::span<const ArrayType> operands) const override {
    return api::naming(text(), [&] { return options_->infer(operands); });
  }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) const override {
    return api::make_custom_kernel(options_, *this, request);
  }
  std::optional<std::vector<ir::Tangent>> tangents(const ir::JvpContext& context) const override {
    if (!options_->jvp && !options_->vjp) return std::nullopt;
    return api::naming(text(), [&] {
      const ExampleCall example(context);
      return options_->jvp ? tangents_by_jvp(*options_, example) : tangents_by_vjp(*options_, example);
    });
  }
  std::optional<std::vector<ir::Value>> batch(const ir::BatchContext& context) const override {
    if (!options_->vmap) return std::nullopt;
    return api::naming(text(), [&] { return traced_rule(*options_, *this, context); });
  }
  Mapping mapping() const override {
    switch (options_->vmap_method) {
      case VmapMethod::sequential:
        return Mapping::in_turn;
      case VmapMethod::broadcast_all:
        return Mapping::at_once;
      case VmapMethod::refuse:
        break;
    }
    return Mapping::refused;
  }

 private:
  OptionsPtr options_;
};

/// A concrete array as an op without operands.
ir::CustomOpPtr constant_op(const Array& array) {
  CustomOpOptions options{.name = "constant", .infer = [type = array.type()](auto) { return Types{type}; }};
  options.callback = [array](std::span<const Array>) { return std::vector<Array>{array}; };
  return std::make_shared<const TracedOp>(std::make_shared<const CustomOpOptions>(std::move(options)));
}

std::vector<Tree> trees_of(std::span<const Array> arrays) { return {arrays.begin(), arrays.end()}; }
Tree list_tree_of(std::span<const Array> arrays) { return Tree::list(trees_of(arrays)); }

}  // namespace

class CustomOp::Impl {
 public:
  explicit Impl(CustomOpOptions given)
      : options_(std::make_shared<const CustomOpOptions>(std::move(given))),
        op_(std::make_shared<const TracedOp>(options_)),
        checks_(CustomOptions{options_->check}) {}

  const CustomOpOptions& options() const { return *options_; }

  std::vector<Array> call(std::span<const Array> operands) const {
    if (!tracing::is_open()) return bare(operands);
    if (options_->vjp) return with_vjp(operands);
    if (options_->jvp) return with_jvp(operands);
    return bare(operands);
  }

 private:
  std::vector<Array> bare(std::span<const Array> operands) const {
    return api::bind(ops::custom_call(), operands, ir::CustomCall{op_}.attrs());
  }
  std::vector<Array> bare(const std::vector<Tree>& operands) const {
    return bare(std::span<const Array>(Tree::list(operands).leaves()));
  }

  std::vector<Array> ruled(const char* rule, const std::vector<Array>& given, std::size_t expected) const {
    if (given.size() == expected) return given;
    throw StateError(
        fmt::format("{}: its {} returned {} arrays; expected {}", op_->text(), rule, given.size(), expected));
  }

  std::vector<Array> with_vjp(std::span<const Array> operands) const {
    const std::size_t count = operands.size();
    const auto fwd = [&](const std::vector<Tree>& trees) {
      const Tree results = list_tree_of(bare(trees));
      return Tree::list({results, Tree::list({Tree::list(trees), results})});
    };
    const auto bwd = [&](const std::vector<Tree>& trees) {
      const std::vector<Array> kept = trees[0].items()[0].leaves();
      const std::vector<Array> results = trees[0].items()[1].leaves();
      const std::vector<Array> cotangents = trees[1].leaves();
      return list_tree_of(ruled("vjp", options_->vjp(kept, results, cotangents), count));
    };
    return detail::custom_vjp([&](const std::vector<Tree>& trees) { return list_tree_of(bare(trees)); }, fwd, bwd,
                              trees_of(operands), checks_)
        .leaves();
  }

  std::vector<Array> with_jvp(std::span<const Array> operands) const {
    const auto rule = [&](const std::vector<Tree>& trees) {
      const std::vector<Array> primals = trees[0].leaves();
      const std::vector<Array> tangents = trees[1].leaves();
      const std::vector<Array> results = bare(std::span<const Array>(primals));
      return Tree::list({list_tree_of(results),
                         list_tree_of(ruled("jvp", options_->jvp(primals, results, tangents), results.size()))});
    };
    return detail::custom_jvp([&](const std::vector<Tree>& trees) { return list_tree_of(bare(trees)); }, rule,
                              trees_of(operands), checks_)
        .leaves();
  }

  OptionsPtr options_;
  ir::CustomOpPtr op_;  ///< A TracedOp.
  detail::RuleChecks checks_;
};

CustomOp::CustomOp(CustomOpOptions options) {
  check_options(options);
  impl_ = std::make_shared<const Impl>(std::move(options));
}

const std::string& CustomOp::name() const { return detail::held(impl_, "custom op").options().name; }

std::vector<Array> CustomOp::call(std::span<const Array> operands) const {
  return detail::held(impl_, "custom op").call(operands);
}

Array CustomOp::one(const std::vector<Array>& operands) const {
  std::vector<Array> results = call(operands);
  if (results.size() == 1) return std::move(results[0]);
  throw ValueError(
      fmt::format("CustomOp \"{}\": it has {} results; use call, which returns all", name(), results.size()));
}

std::vector<Array> pure_callback(std::function<std::vector<Array>(std::span<const Array>)> callback,
                                 std::vector<ArrayType> results, std::span<const Array> operands,
                                 PureCallbackOptions options) {
  CustomOpOptions of_op{.name = std::move(options.name), .infer = {}};
  of_op.callback = std::move(callback);
  of_op.vmap_method = options.vmap_method;
  if (!tracing::is_open()) {
    const std::string op = fmt::format("custom op \"{}\"", of_op.name);
    for (const Array& operand : operands) api::check_concrete(operand, [&] { return op; });
    return api::naming(op, [&] { return api::call_back(of_op, operands, results); });
  }
  of_op.infer = [results = std::move(results)](std::span<const ArrayType>) { return results; };
  return CustomOp(std::move(of_op)).call(operands);
}

Array pure_callback(std::function<Array(std::span<const Array>)> callback, const ArrayType& result,
                    std::span<const Array> operands, PureCallbackOptions options) {
  auto all = [callback = std::move(callback)](std::span<const Array> arrays) {
    return std::vector<Array>{callback(arrays)};
  };
  return pure_callback(std::move(all), std::vector<ArrayType>{result}, operands, std::move(options)).front();
}

Array pure_callback(std::function<Array(std::span<const Array>)> callback, const ArrayType& result,
                    std::initializer_list<Array> operands, PureCallbackOptions options) {
  return pure_callback(std::move(callback), result, std::span<const Array>(operands.begin(), operands.size()),
                       std::move(options));
}

}  // namespace lockstep
