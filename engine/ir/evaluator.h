#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/ir/eval.h"
#include "engine/ir/kernel_runner.h"
#include "engine/ir/shards.h"

// The inside of `eval`.
namespace lockstep::ir {

/// One value, on each shard. Shards on which it is the same may share its memory.
using PerShard = std::vector<BufferPtr>;

class Evaluator {
 public:
  explicit Evaluator(const Backend& backend, const EvalObserver* observer = nullptr)
      : backend_(backend), observer_(observer) {}

  /// `inputs[i][s]` is input i on shard s; so are the results.
  std::vector<PerShard> run(const Function& function, const Shards& shards, std::vector<PerShard> inputs) const;

 private:
  std::vector<PerShard> run_equation(const Function& function, const Equation& equation, const Shards& shards,
                                     const std::vector<PerShard>& operands) const;
  std::vector<PerShard> run_kernel(const Function& function, const Equation& equation, const Shards& shards,
                                   const std::vector<PerShard>& operands) const;

  std::vector<PerShard> run_scan(const Equation& equation, const Shards& shards,
                                 const std::vector<PerShard>& operands) const;
  std::vector<PerShard> run_while_loop(const Equation& equation, const Shards& shards,
                                       const std::vector<PerShard>& operands) const;
  std::vector<PerShard> run_cond(const Equation& equation, const Shards& shards,
                                 const std::vector<PerShard>& operands) const;
  /// For sub-functions: with only some shards' values counting (in a branch that some do not take, those must not keep a
  /// loop running), within one more loop.
  Evaluator with_active(std::vector<bool> active) const;
  Evaluator in_iteration(std::int64_t i) const;
  void report(const Function& function, const Equation& equation, const Shards& shards,
              const std::vector<PerShard>& operands, const std::vector<PerShard>& results) const;
  bool is_active(std::size_t shard) const { return active_.empty() || active_[shard]; }

  std::vector<PerShard> run_pmap(const Function& function, const Equation& equation, const Shards& shards,
                                 const std::vector<PerShard>& operands) const;
  std::vector<BufferPtr> map(const Equation& equation, std::span<const ArrayType> output_types,
                             std::span<const ArrayType> input_types, std::span<const BufferPtr> operands) const;
  PerShard cut(const ArrayType& whole, const ArrayType& part, const std::vector<std::string>& layout,
               const Shards& shards, const BufferPtr& operand) const;
  BufferPtr assemble(const ArrayType& whole, const ArrayType& part, const std::vector<std::string>& layout,
                     const Shards& shards, const PerShard& values) const;

  const Backend& backend_;
  const EvalObserver* observer_;
  std::vector<bool> active_;  // the shards whose values count; empty: all
  std::vector<std::int64_t> iterations_;
};

std::vector<ArrayType> types_of(const Function& function, std::span<const Var> vars);

}  // namespace lockstep::ir
