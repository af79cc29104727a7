#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "engine/core/lists.h"
#include "engine/ir/control_flow.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/ops/values.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

namespace lockstep::passes {
namespace {

using ir::Builder;
using ir::Scan;
using ir::Value;
using ir::Var;

using Values = std::vector<Value>;

Values part(const Values& all, std::size_t first, std::size_t count) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

/// Rows first to last of every x.
Values rows(const Values& xs, std::int64_t first, std::int64_t last) {
  Values result;
  for (const Value& x : xs) {
    ops::Dims start = repeated(x.rank()), limit = x.shape().to_vector();
    start[0] = first;
    limit[0] = last;
    result.push_back(ops::slice(x, start, limit, ops::Dims(start.size(), 1)));
  }
  return result;
}

/// The iterations over all rows of `xs`, one after the other: the carries, and the ys stacked.
struct WrittenOut {
  Values carries, ys;
};

WrittenOut write_out(Builder& builder, const Scan& scan, const Values& consts, Values carries, const Values& xs,
                     std::int64_t length) {
  std::vector<Values> ys(scan.ys());
  for (std::int64_t step = 0; step < length; ++step) {
    const std::int64_t at = scan.reverse ? length - 1 - step : step;
    std::vector<Var> arguments;
    for (const Value& v : consts) arguments.push_back(v.var());
    for (const Value& v : carries) arguments.push_back(v.var());
    for (const Value& x : rows(xs, at, at + 1)) arguments.push_back(ops::reshape(x, x.shape().erase(0)).var());
    const std::vector<Var> results = builder.inline_function(*scan.body, arguments);
    for (std::size_t c = 0; c < carries.size(); ++c) carries[c] = Value(builder, results[c]);
    for (std::size_t y = 0; y < ys.size(); ++y) {
      const Value row(builder, results[scan.carries + y]);
      ys[y].push_back(ops::reshape(row, row.shape().insert(0, 1)));
    }
  }
  WrittenOut result{std::move(carries), {}};
  for (Values& y : ys) {
    if (scan.reverse) std::ranges::reverse(y);
    result.ys.push_back(ops::concatenate(y, 0));
  }
  return result;
}

/// The scan over blocks of `unroll` rows, and what remains of the rows written out.
class Unrolling {
 public:
  Unrolling(Builder& builder, const Scan& scan, std::span<const Var> inputs)
      : builder_(builder), scan_(scan), blocks_(scan.length / scan.unroll) {
    Values all;
    for (const Var v : inputs) all.emplace_back(builder, v);
    consts_ = part(all, 0, scan.consts);
    carries_ = part(all, scan.consts, scan.carries);
    xs_ = part(all, scan.consts + scan.carries, scan.xs());
  }

  std::vector<Var> run() {
    if (blocks_ < 2) {
      WrittenOut all = write_out(builder_, scan_, consts_, carries_, xs_, scan_.length);
      return vars(all.carries, all.ys);
    }
    const std::int64_t cut = blocks_ * scan_.unroll;
    const WrittenOut blocks = scan_.reverse ? WrittenOut() : over_blocks(rows(xs_, 0, cut));
    WrittenOut rest;
    if (cut < scan_.length) {
      rest = write_out(builder_, scan_, consts_, carries_, rows(xs_, cut, scan_.length), scan_.length - cut);
      carries_ = rest.carries;
    }
    WrittenOut first = scan_.reverse ? over_blocks(rows(xs_, 0, cut)) : blocks;
    for (std::size_t y = 0; y < rest.ys.size(); ++y) {
      first.ys[y] = ops::concatenate(std::vector{first.ys[y], rest.ys[y]}, 0);
    }
    return vars(carries_, first.ys);
  }

 private:
  static std::vector<Var> vars(const Values& carries, const Values& ys) {
    std::vector<Var> result;
    for (const Value& v : carries) result.push_back(v.var());
    for (const Value& v : ys) result.push_back(v.var());
    return result;
  }

  ir::FunctionPtr block_body() const {
    Builder builder(scan_.body->axes());
    std::vector<ArrayType> types = scan_.body->input_types();
    Values inputs;
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (i >= scan_.consts + scan_.carries) types[i].shape = types[i].shape.insert(0, scan_.unroll);
      inputs.emplace_back(builder, builder.input(types[i]));
    }
    const WrittenOut block =
        write_out(builder, scan_, part(inputs, 0, scan_.consts), part(inputs, scan_.consts, scan_.carries),
                  part(inputs, scan_.consts + scan_.carries, scan_.xs()), scan_.unroll);
    return builder.finish(vars(block.carries, block.ys));
  }

  /// Leaves the carries where the blocks have brought them.
  WrittenOut over_blocks(const Values& xs) {
    Scan outer = scan_;
    outer.body = block_body();
    outer.length = blocks_;
    outer.unroll = 1;
    std::vector<Var> operands = vars(consts_, carries_);
    for (const Value& x : xs) {
      const Shape block = x.shape().with(0, scan_.unroll).insert(0, blocks_);
      operands.push_back(ops::reshape(x, block).var());
    }
    WrittenOut result;
    for (const Var v : builder_.apply(ops::primitives::scan(), operands, outer.attrs())) {
      const Value value(builder_, v);
      if (result.carries.size() < scan_.carries) {
        result.carries.push_back(value);
        continue;
      }
      const Shape joined = value.shape().erase(0).with(0, blocks_ * scan_.unroll);
      result.ys.push_back(ops::reshape(value, joined));
    }
    carries_ = result.carries;
    return result;
  }

  Builder& builder_;
  const Scan& scan_;
  std::int64_t blocks_;
  Values consts_, carries_, xs_;
};

}  // namespace

ir::FunctionPtr unroll(const ir::FunctionPtr& function) {
  return rewrite_each(function, ops::primitives::scan(), [](auto& builder, const ir::Equation& equation, auto inputs) {
    std::optional<std::vector<Var>> results;
    const Scan scan = Scan::of(equation.attrs);
    if (scan.unroll > 1 && scan.length > 0) results = Unrolling(builder, scan, inputs).run();
    return results;
  });
}

}  // namespace lockstep::passes
