#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/ir/control_flow.h"
#include "engine/ir/rewrite.h"
#include "tests/support/mapped_program.h"

// Loops and branches over formulas, and the same programs with every scan and call written out.
namespace lockstep::tests {

/// How a scan is written in a test: the body gets consts, carries and one x of each of xs.
struct ScanSpec {
  std::int64_t length = 0;
  std::size_t consts = 0;
  std::size_t carries = 0;
  bool reverse = false;
};

inline std::vector<ir::Value> scan(const ScanSpec& spec, const std::vector<ir::Value>& operands,
                                   const ShardBody& body) {
  std::vector<ArrayType> types;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    types.push_back(operands[i].type());
    if (i >= spec.consts + spec.carries) types.back().shape = types.back().shape.erase(0);
  }
  const ir::Scan scan{make_function(types, body, operands[0].builder().axes()),
                      spec.length,
                      spec.consts,
                      spec.carries,
                      spec.reverse,
                      1};
  return ops::apply(ops::primitives::scan(), operands, scan.attrs());
}

/// The operands are the condition's consts, the body's, and the carries.
inline std::vector<ir::Value> while_loop(std::size_t cond_consts, std::size_t body_consts,
                                         const std::vector<ir::Value>& operands, const ShardBody& cond,
                                         const ShardBody& body) {
  std::vector<ArrayType> cond_types, body_types;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const bool of_cond = i < cond_consts, of_body = !of_cond && i < cond_consts + body_consts;
    if (!of_body) cond_types.push_back(operands[i].type());
    if (!of_cond) body_types.push_back(operands[i].type());
  }
  const ir::AxisSizes& axes = operands[0].builder().axes();
  const ir::WhileLoop loop{make_function(cond_types, cond, axes), make_function(body_types, body, axes), cond_consts,
                           body_consts};
  return ops::apply(ops::primitives::while_loop(), operands, loop.attrs());
}

inline std::vector<ir::Value> cond(const ir::Value& index, const std::vector<ir::Value>& operands,
                                   const std::vector<ShardBody>& branches) {
  std::vector<ArrayType> types;
  for (const ir::Value& v : operands) types.push_back(v.type());
  ir::Cond cond;
  for (const ShardBody& branch : branches) {
    cond.branches.push_back(make_function(types, branch, index.builder().axes()));
  }
  std::vector<ir::Value> all = {index};
  all.insert(all.end(), operands.begin(), operands.end());
  return ops::apply(ops::primitives::cond(), all, cond.attrs());
}

/// A call that stays apart.
inline std::vector<ir::Value> call(const std::vector<ir::Value>& operands, const ShardBody& body) {
  std::vector<ArrayType> types;
  for (const ir::Value& v : operands) types.push_back(v.type());
  const ir::FunctionPtr f = make_function(types, body, operands[0].builder().axes());
  return ops::apply(ops::primitives::checkpoint(), operands,
                    {{"body", std::shared_ptr<const AttrObject>(f)},
                     {"policy", std::string("nothing_saveable")},
                     {"names", std::vector<std::string>()}});
}

inline ir::FunctionPtr unrolled(const ir::FunctionPtr& function);

inline std::vector<ir::Var> unrolled_scan(ir::Builder& b, const ir::Scan& scan, std::span<const ir::Var> inputs) {
  const ir::FunctionPtr body = unrolled(scan.body);
  const std::size_t first_x = scan.consts + scan.carries;
  std::vector<ir::Var> arguments(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(first_x));
  arguments.resize(inputs.size());
  std::vector<std::vector<ir::Value>> ys(scan.ys());
  for (std::int64_t k = 0; k < scan.length; ++k) {
    const std::int64_t at = scan.reverse ? scan.length - 1 - k : k;
    for (std::size_t i = first_x; i < inputs.size(); ++i) {
      const ir::Value xs(b, inputs[i]);
      ops::Dims start(static_cast<std::size_t>(xs.rank())), limit = xs.shape().to_vector();
      start[0] = at;
      limit[0] = at + 1;
      const ir::Value x = ops::slice(xs, start, limit, ops::Dims(start.size(), 1));
      arguments[i] = ops::reshape(x, xs.shape().erase(0)).var();
    }
    const std::vector<ir::Var> results = b.inline_function(*body, arguments);
    for (std::size_t c = 0; c < scan.carries; ++c) arguments[scan.consts + c] = results[c];
    for (std::size_t i = 0; i < ys.size(); ++i) {
      const ir::Value y(b, results[scan.carries + i]);
      const ir::Value row = ops::reshape(y, y.shape().insert(0, 1));
      ys[i].insert(scan.reverse ? ys[i].begin() : ys[i].end(), row);
    }
  }
  std::vector<ir::Var> results;
  for (std::size_t c = 0; c < scan.carries; ++c) results.push_back(arguments[scan.consts + c]);
  for (std::size_t i = 0; i < ys.size(); ++i) {
    const ArrayType& type = body->type(body->outputs()[scan.carries + i]);
    const ir::Value none = ops::full(b, type.dtype, type.shape.insert(0, 0), 0);
    results.push_back((ys[i].empty() ? none : ops::concatenate(ys[i], 0)).var());
  }
  return results;
}

/// The function without scans and calls: each iteration's equations one after the other.
inline ir::FunctionPtr unrolled(const ir::FunctionPtr& function) {
  return ir::rewrite(*function, [](ir::Builder& b, const ir::Equation& e, std::span<const ir::Var> inputs) {
    std::optional<std::vector<ir::Var>> results;
    if (e.primitive->name == "scan") {
      results = unrolled_scan(b, ir::Scan::of(e.attrs), inputs);
    } else if (e.primitive->traits.call) {
      results = b.inline_function(*unrolled(ir::sub_function(e.attrs, "body")), inputs);
    } else if (e.primitive->name == "pmap") {
      const ir::FunctionPtr body = unrolled(ir::sub_function(e.attrs, "body"));
      results = b.apply(*e.primitive, inputs, e.attrs.with("body", std::shared_ptr<const AttrObject>(body)));
    }
    return results;
  });
}

}  // namespace lockstep::tests
