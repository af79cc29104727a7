#include <numeric>
#include <string>
#include <utility>

#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ir/control_flow.h"
#include "engine/ir/sub_functions.h"
#include "engine/ops/call/implicit.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

std::vector<ArrayType> types_of(const Terms& terms) {
  std::vector<ArrayType> types;
  for (const Term& term : terms) types.push_back(term.type);
  return types;
}

Terms joined(const Terms& a, const Terms& b) {
  Terms all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

Terms part(const Terms& terms, std::size_t begin, std::size_t count) {
  const auto from = terms.begin() + static_cast<std::ptrdiff_t>(begin);
  return {from, from + static_cast<std::ptrdiff_t>(count)};
}

/// What is closed over stands in the regions as it is.
Terms while_loop(const Lowering& l) {
  const ir::WhileLoop loop = ir::WhileLoop::of(l.attrs());
  const Terms cond_consts = part(l.operands, 0, loop.cond_consts);
  const Terms body_consts = part(l.operands, loop.cond_consts, loop.body_consts);
  const Terms init = part(l.operands, loop.cond_consts + loop.body_consts, loop.carries());
  const auto region = [&](const ir::FunctionPtr& function, const Terms& consts) {
    return l.out.region(types_of(init),
                        [&](const Terms& carry) { return l.out.body(*function, joined(consts, carry)); });
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

/// A while loop over (index, carry..., ys...).
Terms scan(const Lowering& l) {
  const ir::Scan scan = ir::Scan::of(l.attrs());
  const Terms consts = part(l.operands, 0, scan.consts), carry = part(l.operands, scan.consts, scan.carries);
  const Terms xs = part(l.operands, scan.consts + scan.carries, scan.xs());
  if (scan.length == 0) {  // a body would read rows that there are not
    Terms results = carry;
    for (std::size_t i = scan.carries; i < l.types.size(); ++i) results.push_back(l.out.zeros(l.types[i]));
    return results;
  }
  const ArrayType counter{DType::int32, {}, {}};
  const Term zero = l.out.splat_integer(counter, 0);
  Terms init = joined({zero}, carry);
  for (std::size_t i = scan.carries; i < l.types.size(); ++i) init.push_back(l.out.zeros(l.types[i]));
  const std::string cond = l.out.region(types_of(init), [&](const Terms& state) {
    return Terms{l.out.compare("LT", state[0], l.out.splat_integer(counter, scan.length))};
  });
  const std::string body = l.out.region(types_of(init), [&](const Terms& state) {
    const Term last = l.out.splat_integer(counter, scan.length - 1);
    const Term index = scan.reverse ? l.out.binary("stablehlo.subtract", last, state[0]) : state[0];
    Terms inputs = joined(consts, part(state, 1, scan.carries));
    for (const Term& x : xs) inputs.push_back(row(l, x, index, zero));
    const Terms results = l.out.body(*scan.body, inputs);
    Terms next = {l.out.binary("stablehlo.add", state[0], l.out.splat_integer(counter, 1))};
    next = joined(next, part(results, 0, scan.carries));
    for (std::size_t i = scan.carries; i < results.size(); ++i) {
      next.push_back(with_row(l, state[i + 1], results[i], index, zero));
    }
    return next;
  });
  const Terms results = l.out.ops("stablehlo.while", init, types_of(init), "", {cond, body});
  return part(results, 1, results.size() - 1);
}

/// y[i] = a[i] y[i-1] + b[i] along an axis, from 0 on: a while loop over (index, last row, y).
Terms recurrence(const Lowering& l) {
  const ArrayType& type = l.type();
  const auto axis = static_cast<int>(l.attrs().get<std::int64_t>("axis"));
  const bool reverse = l.attrs().get_or<bool>("reverse", false);
  if (type.shape.size() == 0) return {l.out.zeros(type)};
  Integers order(static_cast<std::size_t>(type.shape.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[static_cast<std::size_t>(axis)]);
  const Term a = l.out.transpose(l.x(), order), b = l.out.transpose(l.operands[1], order);
  const ArrayType counter{DType::int32, {}, {}}, one_row{type.dtype, b.type.shape.erase(0), {}};
  const Term zero = l.out.splat_integer(counter, 0);
  const Terms init = {zero, l.out.zeros(one_row), l.out.zeros(b.type)};
  const std::int64_t length = b.type.shape[0];
  const std::string cond = l.out.region(types_of(init), [&](const Terms& state) {
    return Terms{l.out.compare("LT", state[0], l.out.splat_integer(counter, length))};
  });
  const std::string body = l.out.region(types_of(init), [&](const Terms& state) {
    const Term last = l.out.splat_integer(counter, length - 1);
    const Term index = reverse ? l.out.binary("stablehlo.subtract", last, state[0]) : state[0];
    const Term scaled = l.out.binary("stablehlo.multiply", row(l, a, index, zero), state[1]);
    const Term next = l.out.binary("stablehlo.add", scaled, row(l, b, index, zero));
    return Terms{l.out.binary("stablehlo.add", state[0], l.out.splat_integer(counter, 1)), next,
                 with_row(l, state[2], next, index, zero)};
  });
  return {l.out.transpose(l.out.ops("stablehlo.while", init, types_of(init), "", {cond, body})[2], order)};
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
      {&primitives::while_loop(), while_loop},  {&primitives::scan(), scan},
      {&primitives::cond(), branches},          {&primitives::linear_recurrence(), recurrence},
      {&primitives::checkpoint(), written_out}, {&primitives::custom_jvp(), written_out},
      {&primitives::custom_vjp(), written_out}, {&primitives::fused(), written_out},
      {&ops::linear_solve(), written_out},      {&ops::root(), written_out},
  };
  const auto found = rules.find(&primitive);
  return found == rules.end() ? nullptr : found->second;
}

}  // namespace lockstep::exchange
