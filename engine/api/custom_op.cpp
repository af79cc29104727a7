#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/custom_op.h>

#include "engine/api/bind.h"
#include "engine/api/custom_kernel.h"
#include "engine/api/runtime.h"
#include "engine/ops/call/custom_call.h"
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

/// The rule of a batch, traced where the op is batched and written into the program there.
std::vector<ir::Value> traced_rule(const CustomOpOptions& options, const ir::CustomOp& op,
                                   const ir::BatchContext& context) {
  std::vector<ArrayType> types;
  std::vector<ir::Var> operands;
  for (const ir::Value& operand : context.inputs) {
    types.push_back(operand.type());
    operands.push_back(operand.var());
  }
  std::vector<ir::AxisSizes::Axis> axes;
  for (const auto& axis : context.builder.axes().axes()) {
    if (!trace::bound_axes().has(axis.name)) axes.push_back(axis);
  }
  const trace::Traced traced =
      trace::trace([&](std::span<const Array> inputs) { return options.vmap(inputs, context.batched, context.size); },
                   types, ir::AxisSizes(std::move(axes)));
  if (!traced.captured.empty() || trace::count_written(traced.cells) != 0) {
    throw TraceError(op.text() + ": its rule for vmap uses an array from outside; make it an operand of the op");
  }
  std::vector<ir::Value> results;
  for (const ir::Var v : context.builder.inline_function(*traced.function, operands)) {
    results.emplace_back(context.builder, v);
  }
  return results;
}

class TracedOp final : public ir::CustomOp {
 public:
  explicit TracedOp(OptionsPtr options) : ir::CustomOp(options->name), options_(std::move(options)) {}

  std::vector<ArrayType> infer(std::span<const ArrayType> operands) const override {
    return api::naming(text(), [&] { return options_->infer(operands); });
  }
  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const override {
    return api::make_custom_kernel(options_, *this, request);
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

std::vector<Tree> trees_of(std::span<const Array> arrays) { return {arrays.begin(), arrays.end()}; }
Tree list_of(std::span<const Array> arrays) { return Tree::list(trees_of(arrays)); }

}  // namespace

class CustomOp::Impl {
 public:
  explicit Impl(CustomOpOptions given)
      : options_(std::make_shared<const CustomOpOptions>(std::move(given))),
        op_(std::make_shared<const TracedOp>(options_)),
        checks_(CustomOptions{options_->check}) {}

  const CustomOpOptions& options() const { return *options_; }

  std::vector<Array> call(std::span<const Array> operands) const {
    if (!trace::is_open()) return bare(operands);
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
      const Tree results = list_of(bare(trees));
      return Tree::list({results, Tree::list({Tree::list(trees), results})});
    };
    const auto bwd = [&](const std::vector<Tree>& trees) {
      const std::vector<Array> kept = trees[0].items()[0].leaves();
      const std::vector<Array> results = trees[0].items()[1].leaves();
      const std::vector<Array> cotangents = trees[1].leaves();
      return list_of(ruled("vjp", options_->vjp(kept, results, cotangents), count));
    };
    return detail::custom_vjp([&](const std::vector<Tree>& trees) { return list_of(bare(trees)); }, fwd, bwd,
                              trees_of(operands), checks_)
        .leaves();
  }

  std::vector<Array> with_jvp(std::span<const Array> operands) const {
    const auto rule = [&](const std::vector<Tree>& trees) {
      const std::vector<Array> primals = trees[0].leaves();
      const std::vector<Array> tangents = trees[1].leaves();
      const std::vector<Array> results = bare(std::span<const Array>(primals));
      return Tree::list(
          {list_of(results), list_of(ruled("jvp", options_->jvp(primals, results, tangents), results.size()))});
    };
    return detail::custom_jvp([&](const std::vector<Tree>& trees) { return list_of(bare(trees)); }, rule,
                              trees_of(operands), checks_)
        .leaves();
  }

  OptionsPtr options_;
  std::shared_ptr<const TracedOp> op_;
  detail::RuleChecks checks_;
};

CustomOp::CustomOp(CustomOpOptions options) {
  check_options(options);
  impl_ = std::make_shared<const Impl>(std::move(options));
}

const std::string& CustomOp::name() const { return impl_->options().name; }

std::vector<Array> CustomOp::call(std::span<const Array> operands) const { return impl_->call(operands); }

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
  if (!trace::is_open()) {
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
