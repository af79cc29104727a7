#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.h>

#include "engine/ir/control_flow.h"
#include "engine/ir/key_elements.h"
#include "engine/ops/control_flow/rules.h"

// The random keys that loops and branches use.
namespace lockstep::ops::control_flow {

namespace {

using ir::KeyElements;

std::vector<KeyElements> follow_body(const ir::KeyContext& context, const ir::Function& body,
                                     std::span<const KeyElements> inputs, std::int64_t iteration) {
  try {
    return context.follow(body, inputs);
  } catch (const KeyReuseError& error) {
    if (iteration == 0) throw;
    throw KeyReuseError(std::string(error.what()) + " The first use was in an earlier iteration of the same " +
                        context.equation.primitive->name +
                        ": carry a key that the body splits, or scan over the keys of a split.");
  }
}

}  // namespace

/// What the body uses of its constants or of a carry that stays, the second iteration uses again.
std::vector<KeyElements> follow_scan_keys(const ir::KeyContext& context) {
  const ir::Equation& equation = context.equation;
  const ir::Scan scan = ir::Scan::of(equation.attrs);
  std::vector<KeyElements> inputs = {context.operands.begin(), context.operands.end()};
  const std::size_t first_x = scan.consts + scan.carries;
  std::vector<bool> x_used(inputs.size());
  std::string used_by;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(scan.length, 2); ++i) {
    for (std::size_t x = first_x; x < inputs.size(); ++x)
      inputs[x] = ir::new_keys(scan.body->type(scan.body->inputs()[x]));
    const std::vector<KeyElements> outputs = follow_body(context, *scan.body, inputs, i);
    for (std::size_t c = 0; c < scan.carries; ++c) inputs[scan.consts + c] = outputs[c];
    for (std::size_t x = first_x; x < inputs.size(); ++x) {
      std::string by = ir::first_use(inputs[x]);
      if (by.empty()) continue;
      x_used[x] = true;
      used_by = std::move(by);
    }
  }
  for (std::size_t x = first_x; x < inputs.size(); ++x) {
    if (x_used[x]) ir::use_keys(context.operands[x], used_by);
  }
  std::vector<KeyElements> outputs;
  for (std::size_t i = 0; i < equation.outputs.size(); ++i) {
    outputs.push_back(i < scan.carries ? inputs[scan.consts + i]
                                       : ir::new_keys(context.function.type(equation.outputs[i])));
  }
  return outputs;
}

std::vector<KeyElements> follow_while_loop_keys(const ir::KeyContext& context) {
  const ir::WhileLoop loop = ir::WhileLoop::of(context.equation.attrs);
  const std::span<const KeyElements> all = context.operands;
  const auto begin = all.begin();
  const auto bodys = begin + static_cast<std::ptrdiff_t>(loop.cond_consts);
  const auto carry = bodys + static_cast<std::ptrdiff_t>(loop.body_consts);
  std::vector<KeyElements> carries(carry, all.end());
  for (std::int64_t i = 0; i < 2; ++i) {
    std::vector<KeyElements> inputs(begin, bodys);
    inputs.insert(inputs.end(), carries.begin(), carries.end());
    follow_body(context, *loop.cond, inputs, i);
    inputs.assign(bodys, carry);
    inputs.insert(inputs.end(), carries.begin(), carries.end());
    carries = follow_body(context, *loop.body, inputs, i);
  }
  return carries;
}

/// Only one of the branches runs, so each starts from the same uses; afterwards those of all count.
std::vector<KeyElements> follow_cond_keys(const ir::KeyContext& context) {
  const ir::Equation& equation = context.equation;
  const ir::Cond cond = ir::Cond::of(equation.attrs);
  const std::span<const KeyElements> inputs = context.operands.subspan(1);
  std::vector<std::pair<KeyElement*, std::string>> before;
  for (const KeyElements& keys : inputs) {
    for (const auto& key : keys) before.emplace_back(key.get(), key->used_by);
  }
  std::vector<std::string> after(before.size());
  std::vector<KeyElements> outputs;
  for (const ir::FunctionPtr& branch : cond.branches) {
    for (const auto& [key, used_by] : before) key->used_by = used_by;
    std::vector<KeyElements> results = context.follow(*branch, inputs);
    for (std::size_t i = 0; i < before.size(); ++i) {
      if (after[i].empty()) after[i] = before[i].first->used_by;
    }
    if (outputs.empty()) {
      outputs = std::move(results);
      continue;
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i] != results[i]) outputs[i] = ir::new_keys(context.function.type(equation.outputs[i]));
    }
  }
  for (std::size_t i = 0; i < before.size(); ++i) before[i].first->used_by = after[i];
  return outputs;
}

}  // namespace lockstep::ops::control_flow
