#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/ir/function.h"

// What an op says of its sub-functions to those who take functions apart: dead code, evaluation, random keys, loops.
namespace lockstep {
namespace backend {
class Buffer;
}
class KeyElement;
}  // namespace lockstep
namespace lockstep::eval {
class Evaluator;
class Shards;
}  // namespace lockstep::eval

namespace lockstep::ir {

// ---- dead code ----------------------------------------------------------------------------------------------------

struct TrimContext {
  const Equation& equation;
  std::vector<bool> live;  ///< Per output; at least one is true, or the equation has an effect.
  /// A function without what its outputs and effects do not need.
  FunctionPtr (*without_dead_code)(const FunctionPtr&);
};
/// The equation without the results that nobody uses, nor what only they need of its sub-functions and operands.
using TrimRule = Equation (*)(const TrimContext&);

// ---- evaluation ---------------------------------------------------------------------------------------------------

/// One value, on each shard. Shards on which it is the same may share its memory.
using PerShard = std::vector<std::shared_ptr<backend::Buffer>>;

struct EvaluateContext {
  const eval::Evaluator& evaluator;
  const Function& function;  ///< The one that `equation` stands in.
  const Equation& equation;
  const eval::Shards& shards;
  std::span<const PerShard> operands;
};
/// The results, all shards in step.
using EvaluateRule = std::vector<PerShard> (*)(const EvaluateContext&);

// ---- random keys --------------------------------------------------------------------------------------------------

/// The elements of an array of keys, in row-major order; empty where they are not followed.
using KeyElements = std::vector<std::shared_ptr<KeyElement>>;

struct KeyContext {
  const Function& function;  ///< The one that `equation` stands in.
  const Equation& equation;
  std::span<const KeyElements> operands;
  /// Marks what a sub-function uses; the elements of its outputs.
  std::vector<KeyElements> (*follow)(const Function&, std::span<const KeyElements> inputs);
};
/// Marks what the sub-functions use, as often as they run; the elements of the results.
using KeyRule = std::vector<KeyElements> (*)(const KeyContext&);

// ---- operands more ------------------------------------------------------------------------------------------------

/// A sub-function with inputs more, from input `at` on.
using Extend = std::function<FunctionPtr(const Function&, std::size_t at)>;
/// The equation with operands more that all its sub-functions see whenever they run.
using CaptureRule = Equation (*)(const Equation&, std::span<const Var> operands, const Extend&);

// ---- branching ----------------------------------------------------------------------------------------------------

/// The axes along which shards may go different ways.
using ChoiceRule = AxisSet (*)(const Function&, const Equation&);

struct SubFunctionRules {
  TrimRule trim = nullptr;          ///< Null: the sub-functions are trimmed, the equation stays as it is.
  EvaluateRule evaluate = nullptr;  ///< Null: as a call.
  KeyRule follow_keys = nullptr;    ///< Null: as a call.
  CaptureRule capture = nullptr;    ///< Null: behind the other operands and inputs.
  ChoiceRule choice = nullptr;      ///< Null: none.
};

}  // namespace lockstep::ir
