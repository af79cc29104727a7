#include <functional>

#include <lockstep/control_flow.h>
#include <lockstep/tree.h>

#include "engine/exchange/stablehlo/importer.h"

namespace lockstep::exchange {
namespace {

std::vector<Array> while_call(const OpCall& call) {
  if (call.op.regions.size() != 2) call.refuse("it needs cond and do");
  const mlir::Region &cond = call.op.regions[0], &body = call.op.regions[1];
  const auto condition = [&](const Tree& carry) -> Array {
    const std::vector<Array> result = call.importer.run(cond, carry.leaves(), &call.values);
    if (result.size() != 1) call.refuse("its condition must give one value");
    return result[0];
  };
  const auto step = [&](const Tree& carry) { return list_of(call.importer.run(body, carry.leaves(), &call.values)); };
  return lockstep::detail::while_loop(condition, step, list_of(call.operands)).leaves();
}

TreeFunction branch(const OpCall& call, std::size_t i) {
  return
      [&call, i](const std::vector<Tree>&) { return list_of(call.importer.run(call.op.regions[i], {}, &call.values)); };
}

std::vector<Array> case_call(const OpCall& call) {
  if (call.op.regions.empty()) call.refuse("it has no branch");
  if (call.op.name == "stablehlo.if") {
    if (call.op.regions.size() != 2) call.refuse("it needs two branches");
    return lockstep::detail::cond(call.operand(0), branch(call, 0), branch(call, 1), {}).leaves();
  }
  std::vector<TreeFunction> branches;
  for (std::size_t i = 0; i < call.op.regions.size(); ++i) branches.push_back(branch(call, i));
  // An index outside means the last branch; ours is clamped.
  const auto last = static_cast<std::int64_t>(branches.size() - 1);
  const Array index = where(call.operand(0) < 0, last, call.operand(0));
  return lockstep::detail::switch_(index, branches, {}).leaves();
}

}  // namespace

std::vector<Array> apply_control_flow(const OpCall& call) {
  const std::string& name = call.op.name;
  if (name == "stablehlo.while") return while_call(call);
  if (name == "stablehlo.case" || name == "stablehlo.if") return case_call(call);
  if (name == "func.call")
    return call.importer.call(call.importer.func(call.op.symbol, call.op), call.operands, call.op.line);
  if (name == "stablehlo.composite") {
    const mlir::Attribute* decomposition = call.find({"decomposition"});
    if (decomposition == nullptr)
      call.refuse("there is no op '" + call.op.symbol + "' here, and it has no decomposition");
    return call.importer.call(call.importer.func(decomposition->text, call.op), call.operands, call.op.line);
  }
  return {};
}

}  // namespace lockstep::exchange
