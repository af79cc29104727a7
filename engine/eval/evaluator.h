#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/eval/eval.h"
#include "engine/eval/kernel_runner.h"
#include "engine/eval/shards.h"
#include "engine/ir/sub_function_rules.h"

// The inside of `eval`.
namespace lockstep::eval {

class Evaluator {
 public:
  explicit Evaluator(const Backend& backend, const EvalObserver* observer = nullptr)
      : backend_(backend), observer_(observer) {}

  /// `inputs[i][s]` is input i on shard s; so are the results.
  std::vector<ir::PerShard> run(const ir::Function& function, const Shards& shards,
                                std::vector<ir::PerShard> inputs) const;

  // For the rules of ops with sub-functions: with only some shards' values counting (in a branch that some do not take,
  // those must not keep a loop running); within one more loop.
  Evaluator with_active(std::vector<bool> active) const;
  Evaluator in_iteration(std::int64_t i) const;
  bool is_active(std::size_t shard) const { return active_.empty() || active_[shard]; }
  const Backend& backend() const { return backend_; }

 private:
  std::vector<ir::PerShard> run_equation(const ir::Function& function, const ir::Equation& equation,
                                         const Shards& shards, const std::vector<ir::PerShard>& operands) const;
  std::vector<ir::PerShard> run_kernel(const ir::Function& function, const ir::Equation& equation, const Shards& shards,
                                       const std::vector<ir::PerShard>& operands) const;

  void report(const ir::Function& function, const ir::Equation& equation, const Shards& shards,
              const std::vector<ir::PerShard>& operands, const std::vector<ir::PerShard>& results) const;

  const Backend& backend_;
  const EvalObserver* observer_;
  std::vector<bool> active_;  // the shards whose values count; empty: all
  std::vector<std::int64_t> iterations_;
};

std::vector<ArrayType> types_of(const ir::Function& function, std::span<const ir::Var> vars);
/// Results given shard by shard.
std::vector<ir::PerShard> by_output(const std::vector<std::vector<BufferPtr>>& by_shard, std::size_t outputs);

}  // namespace lockstep::eval
