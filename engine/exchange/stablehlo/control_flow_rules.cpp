#include <functional>
#include <string>

#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ir/control_flow.h"
#include "engine/ir/sub_functions.h"
#include "engine/ops/call/implicit.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

Terms one_list(const Terms& a, const Terms& b) {
  Terms all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

Terms part(const Terms& terms, std::size_t begin, std::size_t count) {
  const auto from = terms.begin() + static_cast<std::ptrdiff_t>(begin);
  return {from, from + static_cast<std::ptrdiff_t>(count)};
}

/// What is closed over stands in the regions as it is.
Terms while_rule(const Lowering& l) {
  const ir::WhileLoop loop = ir::WhileLoop::of(l.attrs());
  const Terms cond_consts = part(l.operands, 0, loop.cond_consts);
  const Terms body_consts = part(l.operands, loop.cond_consts, loop.body_consts);
  const Terms init = part(l.operands, loop.cond_consts + loop.body_consts, loop.carries());
  const auto region = [&](const ir::FunctionPtr& function, const Terms& consts) {
    return l.out.region(types_of(init),
                        [&](const Terms& carry) { return l.out.body(*function, one_list(consts, carry)); });
  };
  const std::string cond = region(loop.cond, cond_consts), body = region(loop.body, body_consts);
  return l.out.ops("stablehlo.while", init, types_of(init), "", {cond, body});
}

/// Row `index` of an array.
Term row(const Lowering& l, const Term& x, const Term& index, const Term& zero) {
  Terms operands = {x, index};
  operands.resize(static_cast<std::size_t>(x.type.shape.rank()) + 1, zero);
  const ArrayType one{x.type.dtype, x.type.shape.with(0, 1), {}};
  const Term cut =
      l.out.op("stablehlo.dynamic_slice", operands, one, "slice_sizes = " + array_attribute(one.shape.to_vector()));
  return l.out.reshape(cut, x.type.shape.erase(0).to_vector());
}
Term with_row(const Lowering& l, const Term& rows, const Term& value, const Term& index, const Term& zero) {
  const Term one = l.out.reshape(value, rows.type.shape.with(0, 1).to_vector());
  Terms operands = {rows, one, index};
  operands.resize(static_cast<std::size_t>(rows.type.shape.rank()) + 2, zero);
  return l.out.op("stablehlo.dynamic_update_slice", operands, rows.type);
}

/// `length` steps over (count, state...), of which `step` makes the next state from the state, the index and 0. The state
/// behind them.
Terms counted_loop(const Lowering& l, std::int64_t length, bool reverse, const Terms& state,
                   const std::function<Terms(const Terms& state, const Term& index, const Term& zero)>& step) {
  const ArrayType counter{DType::int32, {}, {}};
  const Term zero = l.out.splat_integer(counter, 0);
  const Terms init = one_list({zero}, state);
  const std::string cond = l.out.region(types_of(init), [&](const Terms& now) {
    return Terms{l.out.compare("LT", now[0], l.out.splat_integer(counter, length))};
  });
  const std::string body = l.out.region(types_of(init), [&](const Terms& now) {
    const Term last = l.out.splat_integer(counter, length - 1);
    const Term index = reverse ? l.out.binary("stablehlo.subtract", last, now[0]) : now[0];
    const Terms next = step(part(now, 1, state.size()), index, zero);
    return one_list({l.out.binary("stablehlo.add", now[0], l.out.splat_integer(counter, 1))}, next);
  });
  return part(l.out.ops("stablehlo.while", init, types_of(init), "", {cond, body}), 1, state.size());
}

/// A loop over (carry..., ys...).
Terms scan_rule(const Lowering& l) {
  const ir::Scan scan = ir::Scan::of(l.attrs());
  const Terms consts = part(l.operands, 0, scan.consts), carry = part(l.operands, scan.consts, scan.carries);
  const Terms xs = part(l.operands, scan.consts + scan.carries, scan.xs());
  Terms init = carry;
  for (std::size_t i = scan.carries; i < l.types.size(); ++i) init.push_back(l.out.zeros(l.types[i]));
  if (scan.length == 0) return init;  // a body would read rows that there are not
  return counted_loop(l, scan.length, scan.reverse, init, [&](const Terms& state, const Term& index, const Term& zero) {
    Terms inputs = one_list(consts, part(state, 0, scan.carries));
    for (const Term& x : xs) inputs.push_back(row(l, x, index, zero));
    Terms next = l.out.body(*scan.body, inputs);
    for (std::size_t i = scan.carries; i < next.size(); ++i) {
      next[i] = with_row(l, state[i], next[i], index, zero);
    }
    return next;
  });
}

/// y[i] = a[i] y[i-1] + b[i] along an axis, from 0 on: a loop over (last row, y).
Terms recurrence(const Lowering& l) {
  const ArrayType& type = l.type();
  const auto axis = static_cast<int>(l.attrs().get<std::int64_t>("axis"));
  if (type.shape.size() == 0) return {l.out.zeros(type)};
  const Term a = l.out.swap_axes(l.x(), 0, axis), b = l.out.swap_axes(l.operands[1], 0, axis);
  const Terms init = {l.out.zeros({type.dtype, b.type.shape.erase(0), {}}), l.out.zeros(b.type)};
  const auto step = [&](const Terms& state, const Term& index, const Term& zero) {
    const Term scaled = l.out.binary("stablehlo.multiply", row(l, a, index, zero), state[0]);
    const Term next = l.out.binary("stablehlo.add", scaled, row(l, b, index, zero));
    return Terms{next, with_row(l, state[1], next, index, zero)};
  };
  const bool reverse = l.attrs().get_or<bool>("reverse", false);
  return {l.out.swap_axes(counted_loop(l, b.type.shape[0], reverse, init, step)[1], 0, axis)};
}

Terms branches(const Lowering& l) {
  const ir::Cond cond = ir::Cond::of(l.attrs());
  const Terms arguments = part(l.operands, 1, l.operands.size() - 1);
  std::vector<std::string> regions;
  for (const ir::FunctionPtr& branch : cond.branches) {
    regions.push_back(l.out.region({}, [&](const Terms&) { return l.out.body(*branch, arguments); }));
  }
  // An index below 0 means the first branch here, and the last one there.
  const Term zero = l.out.splat_integer(l.x().type, 0);
  return l.out.ops("stablehlo.case", {l.out.binary("stablehlo.maximum", l.x(), zero)}, l.types, "", regions);
}

Terms written_out(const Lowering& l) { return l.out.body(*ir::sub_function(l.attrs(), "body"), l.operands); }

}  // namespace

LoweringRule control_flow_rule(const ir::Primitive& primitive) {
  static const std::map<const ir::Primitive*, LoweringRule> rules = {
      {&primitives::while_loop(), while_rule},  {&primitives::scan(), scan_rule},
      {&primitives::cond(), branches},          {&primitives::linear_recurrence(), recurrence},
      {&primitives::checkpoint(), written_out}, {&primitives::custom_jvp(), written_out},
      {&primitives::custom_vjp(), written_out}, {&primitives::fused(), written_out},
      {&ops::linear_solve(), written_out},      {&ops::root(), written_out},
  };
  const auto found = rules.find(&primitive);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace lockstep::exchange
