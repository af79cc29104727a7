#include "engine/ops/call/implicit.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/implicit_differentiation.h>
#include <lockstep/transforms.h>

#include "engine/api/numpy/weak_types.h"
#include "engine/api/transforms/bind.h"
#include "engine/api/transforms/runtime.h"
#include "engine/api/trees/tree_trace.h"
#include "engine/ir/builder.h"
#include "engine/trace/trace.h"
#include "engine/transform/transforms.h"

namespace lockstep::detail {

namespace {

using api::FlatArguments;
using ir::FunctionPtr;
using ir::Var;

/// A function of an equation: (leaf..., captured...) -> leaf..., the leaves those of one or more trees like the unknowns.
struct Member {
  tracing::Traced traced;
  std::size_t first = 0;  ///< Its captured arrays among the constants.
  std::size_t leaves = 0;
};

/// The functions of one equation, traced on trees like its unknowns. What they capture are the op's constants.
class ImplicitEquation {
 public:
  ImplicitEquation(std::string op, const Tree& unknown) : op_(std::move(op)), flat_({api::strong(unknown)}) {
    for (std::size_t i = 0; i < flat_.size(); ++i) {
      const ArrayType& type = flat_.leaves()[i].type();
      if (is_inexact(type.dtype)) continue;
      throw DtypeError(fmt::format("{}: \"{}\" of the unknowns is {}; expected floats or complex numbers: convert it",
                                   op_, flat_.path_in_argument(i), to_string(type)));
    }
  }

  const std::vector<Array>& leaves() const { return flat_.leaves(); }
  const std::vector<Array>& constants() const { return constants_; }
  Tree tree_of(std::span<const Array> leaves) const { return flat_.rebuild(leaves)[0]; }

  /// A function of `count` trees like the unknowns that gives another one.
  Member trace(std::string_view what, std::size_t count, const TreeFunction& function) {
    const std::size_t size = flat_.size();
    const std::vector<ArrayType> one = flat_.types();
    std::vector<ArrayType> types;
    for (std::size_t i = 0; i < count; ++i) types.insert(types.end(), one.begin(), one.end());
    const auto body = [&](std::span<const Array> inputs) {
      std::vector<Tree> trees;
      for (std::size_t i = 0; i < count; ++i) trees.push_back(tree_of(inputs.subspan(i * size, size)));
      return api::matching_leaves(op_, what, tree_of(leaves()), one, function(trees), std::vector<bool>(size, true),
                                  std::vector<WeakType>(size, WeakType::strong));
    };
    Member member{tracing::trace(body, types), constants_.size(), count * size};
    tracing::refuse_written(member.traced.cells,
                            fmt::format("{}: {} changes state, which has no place in an equation; change it around the "
                                        "call",
                                        op_, what));
    constants_.insert(constants_.end(), member.traced.captured.begin(), member.traced.captured.end());
    return member;
  }

  /// (constant..., leaf...) -> leaf...
  FunctionPtr with_constants(const Member& member) const {
    ir::Builder builder(tracing::bound_axes());
    std::vector<Var> constants, operands;
    for (const Array& array : constants_) constants.push_back(builder.input(tracing::type_in_trace(array)));
    const std::vector<ArrayType> types = member.traced.function->input_types();
    for (std::size_t i = 0; i < member.leaves; ++i) operands.push_back(builder.input(types[i]));
    for (std::size_t i = 0; i < member.traced.captured.size(); ++i) operands.push_back(constants[member.first + i]);
    return builder.finish(builder.inline_function(*member.traced.function, operands));
  }

  /// The transpose of a linear function of the last tree it takes, the others being given.
  TreeFunction transposed(const Member& member, const std::vector<Tree>& given) const {
    ir::Builder builder(tracing::bound_axes());
    const std::vector<ArrayType> types = member.traced.function->input_types();
    const std::size_t known = member.leaves - flat_.size(), captured = types.size() - member.leaves;
    std::vector<Var> before, last, operands;
    for (std::size_t i = 0; i < known; ++i) before.push_back(builder.input(types[i]));
    for (std::size_t i = 0; i < captured; ++i) last.push_back(builder.input(types[member.leaves + i]));
    operands = before;
    for (std::size_t i = known; i < member.leaves; ++i) operands.push_back(builder.input(types[i]));
    operands.insert(operands.end(), last.begin(), last.end());
    const FunctionPtr linear = builder.finish(builder.inline_function(*member.traced.function, operands));
    const FunctionPtr adjoint = transform::transpose(linear, static_cast<int>(known + captured));
    std::vector<Array> residuals;
    for (const Tree& tree : given) residuals = api::joined(std::move(residuals), tree.leaves());
    residuals = api::joined(std::move(residuals), member.traced.captured);
    return [this, adjoint, residuals](const std::vector<Tree>& cotangent) {
      std::vector<Array> operands = api::joined(residuals, cotangent[0].leaves());
      // A solver may start from zeros, which vary along no axis of a map.
      for (std::size_t i = residuals.size(); i < operands.size(); ++i) {
        operands[i] = pvary(operands[i], adjoint->type(adjoint->inputs()[i]).varying);
      }
      return tree_of(api::call(adjoint, std::move(operands)));
    };
  }

  Tree solved(const ir::Primitive& primitive, const std::vector<std::pair<const char*, Member>>& members) const {
    Attrs attrs{{"consts", static_cast<std::int64_t>(constants_.size())}};
    for (const auto& [name, member] : members) {
      attrs = attrs.with(name, std::static_pointer_cast<const AttrObject>(with_constants(member)));
    }
    return tree_of(api::bind(primitive, api::joined(constants_, leaves()), std::move(attrs)));
  }

 private:
  std::string op_;
  FlatArguments flat_;
  std::vector<Array> constants_;
};

/// The unknowns, varying along all axes along which the function makes them vary. Were they the same on all replicas
/// and what becomes of them is not, its transpose would add up the replicas' cotangents: right for such unknowns, but the
/// op solves on each replica for itself.
Tree varying_as_results(const std::string& op, std::string_view what, const TreeFunction& function, Tree unknown) {
  bool is_spread = !tracing::bound_axes().empty();
  while (is_spread) {
    ImplicitEquation equation(op, unknown);
    const std::vector<ArrayType> results = equation.trace(what, 1, function).traced.function->output_types();
    std::vector<Array> leaves = equation.leaves();
    is_spread = false;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (results[i].varying.without(leaves[i].type().varying).empty()) continue;
      leaves[i] = pvary(leaves[i], results[i].varying);
      is_spread = true;
    }
    unknown = equation.tree_of(leaves);
  }
  return unknown;
}

}  // namespace

Tree custom_linear_solve(const TreeFunction& matvec, const Tree& b, const SolveWith& solve,
                         const SolveWith& transpose_solve, bool symmetric) {
  ImplicitEquation equation(__func__, varying_as_results(__func__, "matvec's result", matvec, b));
  std::vector<std::pair<const char*, Member>> members;
  const Member linear = equation.trace("matvec's result", 1, matvec);
  const auto solved = [&](const std::vector<Tree>& right) { return solve(matvec, right[0]); };
  members.emplace_back("matvec", linear);
  members.emplace_back("body", equation.trace("the result of solve", 1, solved));
  if (symmetric) members.emplace_back("transposed", members.back().second);
  if (transpose_solve) {
    const auto adjoint_solved = [&](const std::vector<Tree>& right) {
      return transpose_solve(equation.transposed(linear, {}), right[0]);
    };
    members.emplace_back("transposed", equation.trace("the result of transpose_solve", 1, adjoint_solved));
  }
  return equation.solved(ops::linear_solve(), members);
}

Tree custom_root(const TreeFunction& f, const Tree& start, const SolveWith& solve, const SolveWith& tangent_solve) {
  ImplicitEquation equation(__func__, varying_as_results(__func__, "the function's result", f, start));
  const Member residual = equation.trace("the function's result", 1, f);
  const Member body =
      equation.trace("the result of solve", 1, [&](const std::vector<Tree>& from) { return solve(f, from[0]); });
  const auto along = [&](const std::vector<Tree>& x_and_v) { return jvp(f, {x_and_v[0]}, {x_and_v[1]}).second; };
  const Member matvec = equation.trace("the function's derivative", 2, along);
  const Member forth = equation.trace("the result of tangent_solve", 2, [&](const std::vector<Tree>& x_and_b) {
    const TreeFunction linear = [&](const std::vector<Tree>& v) { return along({x_and_b[0], v[0]}); };
    return tangent_solve(linear, x_and_b[1]);
  });
  const Member back = equation.trace("the result of tangent_solve", 2, [&](const std::vector<Tree>& x_and_b) {
    return tangent_solve(equation.transposed(matvec, {x_and_b[0]}), x_and_b[1]);
  });
  return equation.solved(
      ops::root(),
      {{"residual", residual}, {"body", body}, {"matvec", matvec}, {"solve", forth}, {"transposed", back}});
}

}  // namespace lockstep::detail
