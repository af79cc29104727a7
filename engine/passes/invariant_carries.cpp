#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "engine/ir/control_flow.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

// Weights are often carried through a loop that does not change them. What a body hands on as it got it is a constant of
// the loop: it needs no place of its own for each iteration's value, and what is computed of it alone can be hoisted. (The
// pass-through elements that XLA's while-loop simplifier takes out of a loop's tuple.)
namespace lockstep::passes {
namespace {

using ir::Builder;
using ir::Equation;
using ir::FunctionPtr;
using ir::Scan;
using ir::Var;
using ir::WhileLoop;

/// By carry, whether it is the same in all iterations. Both firsts are where the carries begin.
std::vector<bool> invariant(const Builder& builder, const ir::Function& body, std::span<const Var> operands,
                            std::size_t first_operand, std::size_t first_input, std::size_t carries) {
  std::vector<bool> result(carries);
  for (std::size_t c = 0; c < carries; ++c) {
    result[c] = body.outputs()[c] == body.inputs()[first_input + c] &&
                builder.type(operands[first_operand + c]) == body.type(body.outputs()[c]);
  }
  return result;
}

/// The elements of [first, first + chosen.size()) that are chosen stand in front of the others.
std::vector<Var> chosen_in_front(std::span<const Var> vars, std::size_t first, const std::vector<bool>& chosen) {
  std::vector<Var> result(vars.begin(), vars.end());
  std::size_t at = first;
  for (const bool wanted : {true, false}) {
    for (std::size_t c = 0; c < chosen.size(); ++c) {
      if (chosen[c] == wanted) result[at++] = vars[first + c];
    }
  }
  return result;
}

FunctionPtr with_constants(const ir::Function& f, std::size_t first, const std::vector<bool>& constant,
                           bool has_results) {
  Draft draft(f);
  draft.inputs = chosen_in_front(draft.inputs, first, constant);
  if (has_results) {
    std::vector<Var> outputs;
    for (std::size_t i = 0; i < draft.outputs.size(); ++i) {
      if (i >= constant.size() || !constant[i]) outputs.push_back(draft.outputs[i]);
    }
    draft.outputs = std::move(outputs);
  }
  return draft.finish();
}

/// The loop's results with what went around it in its place.
std::vector<Var> with_operands(std::span<const Var> results, std::span<const Var> carries,
                               const std::vector<bool>& constant) {
  std::vector<Var> all(results.begin(), results.end());
  for (std::size_t c = 0; c < constant.size(); ++c) {
    if (constant[c]) all.insert(all.begin() + static_cast<std::ptrdiff_t>(c), carries[c]);
  }
  return all;
}

std::optional<std::vector<Var>> of_scan(Builder& builder, const Equation& equation, std::span<const Var> operands) {
  Scan scan = Scan::of(equation.attrs);
  const std::vector<bool> constant = invariant(builder, *scan.body, operands, scan.consts, scan.consts, scan.carries);
  const auto count = static_cast<std::size_t>(std::ranges::count(constant, true));
  if (count == 0) return std::nullopt;
  const std::vector<Var> given = chosen_in_front(operands, scan.consts, constant);
  const std::vector<Var> carries(operands.begin() + static_cast<std::ptrdiff_t>(scan.consts),
                                 operands.begin() + static_cast<std::ptrdiff_t>(scan.consts + scan.carries));
  scan.body = with_constants(*scan.body, scan.consts, constant, true);
  scan.consts += count;
  scan.carries -= count;
  return with_operands(builder.apply(ops::primitives::scan(), given, scan.attrs()), carries, constant);
}

std::optional<std::vector<Var>> of_while(Builder& builder, const Equation& equation, std::span<const Var> operands) {
  WhileLoop loop = WhileLoop::of(equation.attrs);
  const std::size_t consts = loop.cond_consts + loop.body_consts, carries = loop.carries();
  const std::vector<bool> constant = invariant(builder, *loop.body, operands, consts, loop.body_consts, carries);
  const auto count = static_cast<std::size_t>(std::ranges::count(constant, true));
  // One that changes nothing never ends, or never begins: whichever it is, it stays a loop.
  if (count == 0 || count == carries) return std::nullopt;
  const std::span<const Var> carried = operands.subspan(consts);
  std::vector<Var> fixed, changing;
  for (std::size_t c = 0; c < carries; ++c) (constant[c] ? fixed : changing).push_back(carried[c]);
  std::vector<Var> given(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(loop.cond_consts));
  given.insert(given.end(), fixed.begin(), fixed.end());
  given.insert(given.end(), operands.begin() + static_cast<std::ptrdiff_t>(loop.cond_consts), carried.begin());
  given.insert(given.end(), fixed.begin(), fixed.end());
  given.insert(given.end(), changing.begin(), changing.end());
  loop.cond = with_constants(*loop.cond, loop.cond_consts, constant, false);
  loop.body = with_constants(*loop.body, loop.body_consts, constant, true);
  loop.cond_consts += count;
  loop.body_consts += count;
  return with_operands(builder.apply(ops::primitives::while_loop(), given, loop.attrs()), carried, constant);
}

}  // namespace

FunctionPtr invariant_carries(const FunctionPtr& function) {
  return rewrite_each(rewrite_each(function, ops::primitives::scan(), of_scan), ops::primitives::while_loop(),
                      of_while);
}

}  // namespace lockstep::passes
