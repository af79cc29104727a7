#include <algorithm>
#include <mutex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/custom_derivatives.h>
#include <lockstep/error.h>
#include <lockstep/moved_from.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

#include "engine/api/inspection/check_rule.h"
#include "engine/api/transforms/bind.h"
#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/tree_paths.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/ir/builder.h"
#include "engine/ops/call/custom_rules.h"
#include "engine/ops/control_flow/sub_functions.h"
#include "engine/ops/primitives.h"
#include "engine/trace/trace.h"

namespace lockstep::detail {

namespace {

using api::FlatArguments;
using api::TracedTree;
using ir::Builder;
using ir::FunctionPtr;
using ir::Var;

template <class T>
std::vector<T> marked(const std::vector<T>& all, const std::vector<bool>& marks) {
  std::vector<T> result;
  for (std::size_t i = 0; i < marks.size(); ++i) {
    if (marks[i]) result.push_back(all[i]);
  }
  return result;
}

std::vector<ArrayType> types_in_trace(const std::vector<Array>& arrays) {
  std::vector<ArrayType> types;
  for (const Array& array : arrays) types.push_back(tracing::type_in_trace(array));
  return types;
}

/// Arrays in order where they are marked, zeros elsewhere.
std::vector<Array> with_zeros_unmarked(const std::vector<ArrayType>& types, const std::vector<bool>& marks,
                                       std::span<const Array> arrays) {
  std::vector<Array> leaves;
  std::size_t next = 0;
  for (std::size_t i = 0; i < types.size(); ++i) {
    leaves.push_back(marks[i] ? arrays[next++] : zeros(types[i].shape, types[i].dtype));
  }
  return leaves;
}

std::vector<Var> add_inputs(Builder& builder, const std::vector<ArrayType>& types) {
  std::vector<Var> inputs;
  for (const ArrayType& type : types) inputs.push_back(builder.input(type));
  return inputs;
}

template <class T>
std::vector<T> with_appended(std::vector<T> a, const std::vector<T>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Var> vars_from(const std::vector<Var>& vars, std::size_t first, std::size_t count) {
  const auto begin = vars.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

/// `v` made to vary as `type` does. Throws MeshError where it varies along more.
Var varying_as(Builder& builder, Var v, const ArrayType& type, std::string_view what) {
  const AxisSet extra = builder.type(v).varying.without(type.varying);
  if (!extra.empty()) {
    throw MeshError(fmt::format("{} is {}, which varies along {}, where {} does not; psum it", what,
                                to_string(builder.type(v)), to_string(extra), to_string(type)));
  }
  return builder.pvary(v, type.varying);
}

/// The arguments of a function with rules of its own, and the function on them.
struct Custom {
  Custom(std::string name, const TreeFunction& function, const std::vector<Tree>& arguments)
      : name(std::move(name)),
        trees(arguments),
        flat(arguments),
        types(flat.types()),
        active(api::inexact_of(types)),
        traced(api::trace_tree(function, flat, types)),
        value(api::without_cells(traced)),
        result_types(traced.result_types()),
        result_active(api::inexact_of(result_types)) {}

  /// The leaves of a rule's first result, checked to be of the function's types.
  std::vector<Array> result_leaves(std::string_view what, const Tree& given) const {
    return api::matching_leaves(name, what, traced.result, result_types, given,
                                std::vector<bool>(result_types.size(), true), traced.weak);
  }

  std::string name;
  std::vector<Tree> trees;
  FlatArguments flat;
  std::vector<ArrayType> types;
  std::vector<bool> active;  ///< Per leaf of the arguments.
  TracedTree traced;
  FunctionPtr value;  ///< Of the result alone.
  std::vector<ArrayType> result_types;
  std::vector<bool> result_active;
};

/// The values that the function leaves in cells, computed beside the op: rules are for results alone. Compiled, what both
/// compute is computed once.
std::vector<Array> cell_values(const Custom& custom) {
  if (custom.traced.written() == 0) return {};
  const ir::Function& f = *custom.traced.function;
  const FunctionPtr cells =
      ops::control_flow::pick(f, ops::control_flow::places(0, f.inputs().size()),
                              ops::control_flow::places(custom.traced.results(), custom.traced.written()),
                              ops::control_flow::Effects::left_out);
  return api::call(cells, api::joined(custom.flat.leaves(), custom.traced.captured));
}

/// The op on its operands, in a trace's bind; the rule is compared with differences first where that is due.
Tree bound(const Custom& custom, const ir::Primitive& primitive, const std::vector<Array>& arguments,
           const std::vector<Array>& closed, Attrs attrs, const RuleChecks& checks) {
  const std::size_t count = custom.flat.size();
  attrs = attrs.with("arguments", static_cast<std::int64_t>(count));
  const std::vector<Array> operands = api::joined(arguments, closed);
  if (checks.is_due(attrs.hash())) {
    Builder builder(tracing::bound_axes());
    const std::vector<Var> inputs = add_inputs(builder, types_in_trace(operands));
    const std::vector<Var> results = builder.apply(primitive, inputs, attrs);
    api::check_rule(custom.name, builder.finish(results), closed, &primitive == &ops::primitives::custom_jvp());
  }
  std::vector<Array> results = api::bind(primitive, operands, std::move(attrs));
  return custom.traced.received(with_appended(std::move(results), cell_values(custom)));
}

/// What a rule does to cells is what the function does to them, or lost.
void check_rule_cells(const Custom& custom, std::string_view rule, std::span<const TouchedCell> cells) {
  for (const TouchedCell& touched : cells) {
    if (!touched.written) continue;
    const auto same = [&](const TouchedCell& own) { return own.written && own.cell == touched.cell; };
    if (std::ranges::any_of(custom.traced.cells, same)) continue;
    throw TraceError(fmt::format(
        "{}: {} changes {}, which the function itself does not, so that the change would be lost; change it "
        "in the function, or hand on what depends on it with the residuals",
        custom.name, rule, touched.cell->options.name));
  }
}

/// A pair that a rule returned.
std::pair<Tree, Tree> pair_of(std::string_view name, std::string_view rule, std::string_view members,
                              const Tree& given) {
  if (given.kind() == Tree::Kind::list && given.items().size() == 2) return {given.items()[0], given.items()[1]};
  throw StateError(fmt::format("{}: {} must produce the pair {}, got {}", name, rule, members, given.structure()));
}

}  // namespace

struct RuleChecks::Impl {
  bool enabled;
  std::mutex mutex;
  std::set<std::uint64_t> checked;
};

RuleChecks::RuleChecks(CustomOptions options) : impl_(std::make_shared<Impl>()) {
#ifdef NDEBUG
  constexpr bool debug = false;
#else
  constexpr bool debug = true;
#endif
  impl_->enabled = options.check == RuleCheck::always || (options.check == RuleCheck::in_debug_builds && debug);
}

bool RuleChecks::is_due(std::uint64_t hash) const {
  Impl& impl = held(impl_, "function with a derivative of its own");
  if (!impl.enabled) return false;
  const std::lock_guard lock(impl.mutex);
  return impl.checked.insert(hash).second;
}

// ---- custom_jvp

Tree custom_jvp(const TreeFunction& function, const TreeFunction& rule, const std::vector<Tree>& arguments,
                const RuleChecks& checks) {
  const Custom custom(__func__, function, arguments);
  const std::size_t count = custom.flat.size();
  const auto body = [&](std::span<const Array> inputs) {
    const std::vector<Tree> primals = custom.flat.rebuild(inputs.first(count));
    const std::vector<Tree> tangents =
        custom.flat.rebuild(with_zeros_unmarked(custom.types, custom.active, inputs.subspan(count)));
    const auto [y, dy] = pair_of(custom.name, "the rule", "of a result and its tangent",
                                 rule({Tree::list(primals), Tree::list(tangents)}));
    std::vector<Array> results = custom.result_leaves("the rule's result", y);
    return with_appended(std::move(results),
                         api::matching_leaves(custom.name, "the rule's tangent", custom.traced.result,
                                              custom.result_types, dy, custom.result_active, custom.traced.weak));
  };
  const tracing::Traced ruled = tracing::trace(body, with_appended(custom.types, marked(custom.types, custom.active)));
  check_rule_cells(custom, "the rule", ruled.cells);
  const std::vector<Array> closed = with_appended(custom.traced.captured, ruled.captured);
  const std::vector<ArrayType> closed_types = types_in_trace(closed);
  const std::size_t of_body = custom.traced.captured.size();
  const ir::AxisSizes& axes = tracing::bound_axes();

  Builder primal(axes);
  const std::vector<Var> all = add_inputs(primal, with_appended(custom.types, closed_types));
  const FunctionPtr value = primal.finish(primal.inline_function(*custom.value, vars_from(all, 0, count + of_body)));

  Builder derivative(axes);
  std::vector<Var> operands = add_inputs(derivative, with_appended(custom.types, closed_types));
  std::vector<Var> given =
      with_appended(vars_from(operands, 0, count), add_inputs(derivative, marked(custom.types, custom.active)));
  given = with_appended(std::move(given), vars_from(operands, count + of_body, ruled.captured.size()));
  std::vector<Var> results = derivative.inline_function(*ruled.function, given);
  results.resize(results.size() - tracing::count_written(ruled.cells));
  const std::vector<ArrayType> expected =
      with_appended(custom.result_types, marked(custom.result_types, custom.result_active));
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i] = varying_as(derivative, results[i], expected[i], "custom_jvp: a result of the rule");
  }
  return bound(custom, ops::primitives::custom_jvp(), custom.flat.leaves(), closed,
               {{"body", std::static_pointer_cast<const AttrObject>(value)},
                {"jvp", std::static_pointer_cast<const AttrObject>(derivative.finish(std::move(results)))}},
               checks);
}

// ---- custom_vjp

namespace {

/// Reads the cotangents that a bwd rule returned against the arguments they belong to.
class CotangentReader {
 public:
  explicit CotangentReader(const Custom& custom) : custom_(custom) {}

  /// One array for each float leaf of the arguments.
  std::vector<Array> read(const Tree& given) {
    const std::size_t expected = custom_.trees.size();
    if (given.kind() != Tree::Kind::list || given.items().size() != expected) {
      throw StateError(fmt::format(
          "custom_vjp: bwd rule must produce a tuple of {} cotangents, one for each argument, got {}", expected,
          given.kind() == Tree::Kind::list ? fmt::format("{} cotangents", given.items().size()) : given.structure()));
    }
    for (std::size_t i = 0; i < expected; ++i) {
      visit(custom_.trees[i], given.items()[i], api::argument_path(i, ""));
    }
    return std::move(cotangents_);
  }

 private:
  void visit(const Tree& argument, const Tree& given, const std::string& path) {
    switch (argument.kind()) {
      case Tree::Kind::none:
      case Tree::Kind::fixed:
        return;
      case Tree::Kind::leaf:
        return visit_leaf(given, path);
      case Tree::Kind::list:
        for (std::size_t i = 0; i < argument.items().size(); ++i) {
          visit(argument.items()[i], child(argument, given, path, i), fmt::format("{}/{}", path, i));
        }
        return;
      case Tree::Kind::dict:
        for (const auto& [key, item] : argument.entries()) {
          visit(item, child(argument, given, path, key), fmt::format("{}/{}", path, key));
        }
        return;
    }
  }

  [[noreturn]] void refuse_structure(const Tree& argument, const Tree& given, const std::string& path) const {
    throw StateError(fmt::format("custom_vjp: bwd rule must produce a cotangent of the structure of {}, {}, got {}",
                                 path, argument.structure(), given.structure()));
  }

  /// An empty tree is zero throughout.
  Tree child(const Tree& argument, const Tree& given, const std::string& path, std::size_t i) const {
    if (given.kind() == Tree::Kind::none) return {};
    if (given.kind() != Tree::Kind::list || given.items().size() != argument.items().size()) {
      refuse_structure(argument, given, path);
    }
    return given.items()[i];
  }
  Tree child(const Tree& argument, const Tree& given, const std::string& path, const std::string& key) const {
    if (given.kind() == Tree::Kind::none) return {};
    if (given.kind() != Tree::Kind::dict || given.entries().size() != argument.entries().size() ||
        !given.entries().contains(key)) {
      refuse_structure(argument, given, path);
    }
    return given.entries().at(key);
  }

  void visit_leaf(const Tree& given, const std::string& path) {
    const std::size_t leaf = leaf_++;
    if (!custom_.active[leaf]) return;
    const ArrayType& type = custom_.types[leaf];
    if (given.kind() == Tree::Kind::none || (given.is_leaf() && !given.array().has_value())) {
      cotangents_.push_back(zeros(type.shape, type.dtype));
      return;
    }
    if (!given.is_leaf()) {
      throw StateError(
          fmt::format("custom_vjp: bwd rule must produce an array for {}, got {}", path, given.structure()));
    }
    const Array cotangent = api::fitted(given.array(), type.dtype, custom_.flat.weak_types()[leaf]);
    const std::string text =
        fmt::format("custom_vjp: bwd rule must produce a cotangent of type {}[{}] for {}, got {}", name(type.dtype),
                    fmt::join(type.shape.to_vector(), ","), path, to_string(cotangent.type()));
    if (cotangent.dtype() != type.dtype) throw DtypeError(text);
    if (!(cotangent.shape() == type.shape)) throw ShapeError(text);
    cotangents_.push_back(cotangent);
  }

  const Custom& custom_;
  std::size_t leaf_ = 0;
  std::vector<Array> cotangents_;
};

/// fwd: leaves of the arguments -> leaves of the result, then of the residuals.
struct ForwardRule {
  tracing::Traced traced;
  Tree residuals;
  std::vector<WeakType> weak;  ///< Of the residuals' leaves.
};

ForwardRule trace_forward(const Custom& custom, const TreeFunction& fwd) {
  ForwardRule rule;
  rule.traced = tracing::trace(
      [&](std::span<const Array> inputs) {
        const auto [y, residuals] = pair_of(custom.name, "fwd rule", "of the function's result and residuals",
                                            fwd(custom.flat.rebuild(inputs)));
        rule.residuals = api::skeleton(residuals);
        return with_appended(custom.result_leaves("the result of the fwd rule", y),
                             api::passed(residuals.leaves(), rule.weak));
      },
      custom.types);
  return rule;
}

tracing::Traced trace_backward(const Custom& custom, const TreeFunction& bwd, const ForwardRule& forward) {
  const std::size_t residuals = forward.residuals.size();
  const std::vector<ArrayType> outputs = forward.traced.function->output_types();
  const auto first = outputs.begin() + static_cast<std::ptrdiff_t>(custom.result_types.size());
  std::vector<ArrayType> types(first, first + static_cast<std::ptrdiff_t>(residuals));
  types = with_appended(std::move(types), marked(custom.result_types, custom.result_active));
  return tracing::trace(
      [&](std::span<const Array> inputs) {
        const auto kept = inputs.first(residuals);
        const std::vector<Array> cotangents =
            with_zeros_unmarked(custom.result_types, custom.result_active, inputs.subspan(residuals));
        const Tree given =
            bwd({api::unflattened(forward.residuals, kept, forward.weak), custom.traced.tree_of(cotangents)});
        return CotangentReader(custom).read(given);
      },
      types);
}

/// Arguments as the op takes them, and along what the cotangents of those with a derivative vary.
struct Shared {
  std::vector<Array> arguments;
  std::vector<AxisSet> cotangents;
};

/// Where the rule gives each replica's share of the cotangent of what is the same on all, the argument is varied in front
/// of the op: shares are summed where that is undone, behind loops and microbatches. In the rule they are summed only
/// where results would vary that do not.
Shared shared_arguments(const Custom& custom, const std::vector<ArrayType>& cotangents) {
  Shared shared{custom.flat.leaves(), {}};
  for (std::size_t i = 0; i < custom.types.size(); ++i) {
    if (!custom.active[i]) continue;
    const AxisSet& own = custom.types[i].varying;
    const AxisSet more = cotangents[shared.cotangents.size()].varying.without(own);
    const bool all_vary =
        std::ranges::all_of(custom.result_types, [&](const ArrayType& type) { return type.varying.contains(more); });
    if (all_vary && !more.empty()) shared.arguments[i] = pvary(shared.arguments[i], more);
    shared.cotangents.push_back(all_vary ? own.joined(more) : own);
  }
  return shared;
}

}  // namespace

Tree custom_vjp(const TreeFunction& function, const TreeFunction& fwd, const TreeFunction& bwd,
                const std::vector<Tree>& arguments, const RuleChecks& checks) {
  const Custom custom(__func__, function, arguments);
  const ForwardRule forward = trace_forward(custom, fwd);
  const tracing::Traced backward = trace_backward(custom, bwd, forward);
  const std::size_t count = custom.flat.size();
  check_rule_cells(custom, "the fwd rule", forward.traced.cells);
  check_rule_cells(custom, "the bwd rule", backward.cells);
  const std::vector<Array>& of_body = custom.traced.captured;
  const std::vector<Array>& of_fwd = forward.traced.captured;
  const std::vector<Array>& of_bwd = backward.captured;
  const std::vector<Array> closed = with_appended(with_appended(of_body, of_fwd), of_bwd);
  const std::vector<ArrayType> closed_types = types_in_trace(closed);
  const ir::AxisSizes& axes = tracing::bound_axes();

  Builder primal(axes);
  std::vector<Var> all = add_inputs(primal, with_appended(custom.types, closed_types));
  const FunctionPtr value =
      primal.finish(primal.inline_function(*custom.value, vars_from(all, 0, count + of_body.size())));

  // What bwd closed over travels with the residuals.
  Builder first(axes);
  all = add_inputs(first, with_appended(custom.types, closed_types));
  std::vector<Var> results = first.inline_function(
      *forward.traced.function,
      with_appended(vars_from(all, 0, count), vars_from(all, count + of_body.size(), of_fwd.size())));
  results.resize(custom.result_types.size() + forward.residuals.size());
  for (std::size_t i = 0; i < custom.result_types.size(); ++i) {
    results[i] = varying_as(first, results[i], custom.result_types[i], "custom_vjp: a result of the fwd rule");
  }
  const std::size_t residuals = results.size() - custom.result_types.size();
  std::vector<ArrayType> in;
  for (const Var v : vars_from(results, custom.result_types.size(), residuals)) in.push_back(first.type(v));
  results = with_appended(std::move(results), vars_from(all, count + of_body.size() + of_fwd.size(), of_bwd.size()));
  const FunctionPtr forth = first.finish(std::move(results));

  Builder second(axes);
  const std::vector<Var> kept = add_inputs(second, in);
  const std::vector<Var> captured = add_inputs(second, types_in_trace(of_bwd));
  const std::vector<Var> cotangents = add_inputs(second, marked(custom.result_types, custom.result_active));
  std::vector<Var> cotangents_of_arguments =
      second.inline_function(*backward.function, with_appended(with_appended(kept, cotangents), captured));
  cotangents_of_arguments.resize(cotangents_of_arguments.size() - tracing::count_written(backward.cells));
  const FunctionPtr shares = second.finish(std::move(cotangents_of_arguments));
  const Shared shared = shared_arguments(custom, shares->output_types());
  const FunctionPtr back = ops::call::cotangents_varying_as(shares, shared.cotangents);
  return bound(custom, ops::primitives::custom_vjp(), shared.arguments, closed,
               {{"body", std::static_pointer_cast<const AttrObject>(value)},
                {"fwd", std::static_pointer_cast<const AttrObject>(forth)},
                {"bwd", std::static_pointer_cast<const AttrObject>(back)}},
               checks);
}

}  // namespace lockstep::detail
