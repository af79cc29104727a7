#include <algorithm>
#include <cstring>

#include "engine/core/lists.h"
#include "engine/eval/evaluator.h"
#include "engine/ir/control_flow.h"
#include "engine/ops/control_flow/rules.h"

// scan, while_loop and cond, all shards in step.
namespace lockstep::ops::control_flow {

using eval::BufferPtr;
using eval::Shards;
using ir::PerShard;

namespace {

template <class T>
T element(const BufferPtr& buffer) {
  T value;
  std::memcpy(&value, buffer->data(), sizeof(value));
  return value;
}

/// Rows along the first dimension.
struct RowAddresses {
  std::size_t bytes;

  explicit RowAddresses(const ArrayType& row) : bytes(static_cast<std::size_t>(row.nbytes())) {}
  std::byte* at(const BufferPtr& stacked, std::int64_t i) const {
    return static_cast<std::byte*>(stacked->data()) + static_cast<std::size_t>(i) * bytes;
  }
};

PerShard row(const backend::Backend& backend, const ArrayType& type, const Shards& shards, const PerShard& stacked,
             std::int64_t i) {
  const RowAddresses rows(type);
  return shards.share<BufferPtr>(type.varying, [&](std::int64_t shard) {
    BufferPtr result = eval::allocate(backend, type);
    if (rows.bytes > 0) {
      std::memcpy(result->data(), rows.at(nth(stacked, shard), i), rows.bytes);
    }
    return result;
  });
}

void set_row(const ArrayType& type, const Shards& shards, const PerShard& stacked, std::int64_t i,
             const PerShard& values) {
  const RowAddresses rows(type);
  if (rows.bytes == 0) return;
  for (std::int64_t shard = 0; shard < shards.count(); ++shard) {
    if (shards.representative(shard, type.varying) != shard) continue;
    const auto s = static_cast<std::size_t>(shard);
    std::memcpy(rows.at(stacked[s], i), values[s]->data(), rows.bytes);
  }
}

std::vector<PerShard> part(std::span<const PerShard> values, std::size_t first, std::size_t count) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

std::vector<PerShard> followed(std::vector<PerShard> a, const std::vector<PerShard>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

std::vector<PerShard> evaluate_scan(const ir::EvaluateContext& context) {
  const auto& [evaluator, function, equation, shards, operands] = context;
  const ir::Scan scan = ir::Scan::of(equation.attrs);
  const std::vector<ArrayType> inputs = scan.body->input_types(), outputs = scan.body->output_types();
  const std::vector<PerShard> consts = part(operands, 0, scan.consts);
  std::vector<PerShard> carry = part(operands, scan.consts, scan.carries);
  const std::size_t first_x = scan.consts + scan.carries;
  std::vector<PerShard> ys;
  for (std::size_t k = scan.carries; k < outputs.size(); ++k) {
    const ArrayType stacked{outputs[k].dtype, outputs[k].shape.insert(0, scan.length), outputs[k].varying};
    ys.push_back(shards.share<BufferPtr>(stacked.varying,
                                         [&](std::int64_t) { return eval::allocate(evaluator.backend(), stacked); }));
  }
  for (std::int64_t t = 0; t < scan.length; ++t) {
    const std::int64_t i = scan.reverse ? scan.length - 1 - t : t;
    std::vector<PerShard> arguments = followed(consts, carry);
    for (std::size_t x = first_x; x < operands.size(); ++x) {
      arguments.push_back(row(evaluator.backend(), inputs[x], shards, operands[x], i));
    }
    const std::vector<PerShard> results = evaluator.in_iteration(i).run(*scan.body, shards, std::move(arguments));
    carry = part(results, 0, scan.carries);
    for (std::size_t k = 0; k < ys.size(); ++k) {
      set_row(outputs[scan.carries + k], shards, ys[k], i, results[scan.carries + k]);
    }
  }
  return followed(std::move(carry), ys);
}

std::vector<PerShard> evaluate_while_loop(const ir::EvaluateContext& context) {
  const auto& [evaluator, function, equation, shards, operands] = context;
  const ir::WhileLoop loop = ir::WhileLoop::of(equation.attrs);
  const std::vector<PerShard> cond_consts = part(operands, 0, loop.cond_consts);
  const std::vector<PerShard> body_consts = part(operands, loop.cond_consts, loop.body_consts);
  std::vector<PerShard> carry = part(operands, loop.cond_consts + loop.body_consts, loop.carries());
  for (std::int64_t i = 0;; ++i) {
    const std::vector<PerShard> predicates =
        evaluator.in_iteration(i).run(*loop.cond, shards, followed(cond_consts, carry));
    std::vector<bool> stays;
    bool any = false;
    for (std::size_t s = 0; s < predicates[0].size(); ++s) {
      stays.push_back(element<bool>(predicates[0][s]));
      any = any || (stays[s] && evaluator.is_active(s));
    }
    if (!any) return carry;
    // Shards that have left are computed along and keep what they had.
    std::vector<bool> counting = stays;
    for (std::size_t s = 0; s < counting.size(); ++s) counting[s] = counting[s] && evaluator.is_active(s);
    const std::vector<PerShard> next =
        evaluator.in_iteration(i).with_active(counting).run(*loop.body, shards, followed(body_consts, carry));
    for (std::size_t k = 0; k < carry.size(); ++k) {
      for (std::size_t s = 0; s < stays.size(); ++s) {
        if (stays[s]) carry[k][s] = next[k][s];
      }
    }
  }
}

std::vector<PerShard> evaluate_cond(const ir::EvaluateContext& context) {
  const auto& [evaluator, function, equation, shards, operands] = context;
  const ir::Cond cond = ir::Cond::of(equation.attrs);
  const auto last = static_cast<std::int32_t>(cond.branches.size()) - 1;
  std::vector<std::size_t> chosen;
  for (const BufferPtr& index : operands[0]) {
    chosen.push_back(static_cast<std::size_t>(std::clamp(element<std::int32_t>(index), 0, last)));
  }
  const std::vector<PerShard> arguments = part(operands, 1, operands.size() - 1);
  std::vector<PerShard> results(equation.outputs.size(), PerShard(chosen.size()));
  for (std::size_t b = 0; b < cond.branches.size(); ++b) {
    std::vector<bool> takes;
    for (std::size_t s = 0; s < chosen.size(); ++s) takes.push_back(chosen[s] == b && evaluator.is_active(s));
    if (std::ranges::find(takes, true) == takes.end()) continue;
    const std::vector<PerShard> values = evaluator.with_active(takes).run(*cond.branches[b], shards, arguments);
    for (std::size_t k = 0; k < values.size(); ++k) {
      for (std::size_t s = 0; s < takes.size(); ++s) {
        if (takes[s] || results[k][s] == nullptr) results[k][s] = values[k][s];
      }
    }
  }
  return results;
}

}  // namespace lockstep::ops::control_flow
