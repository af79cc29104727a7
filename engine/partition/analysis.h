#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/partition/resolve.h"

// Which layout every value of a function gets, before anything is written.
namespace lockstep::partition {

struct Analysis;

/// What becomes of one equation.
struct EquationPlan {
  Resolution resolution;
  std::vector<std::shared_ptr<const Analysis>> bodies;  ///< Of its sub-functions, in the order of their op.
};

/// A function's values over a mesh.
struct Analysis {
  ir::FunctionPtr function;
  std::vector<ValueLayout> layouts;  ///< Per var, as its readers find it.
  std::vector<bool> zeros;           ///< Per var: known to be zeros.
  std::vector<bool> live;            ///< Per equation.
  std::vector<EquationPlan> equations;
  std::vector<std::optional<Wish>> wishes;  ///< Per var, of its readers.

  const ValueLayout& layout(ir::Var v) const { return layouts[v.id]; }
};

/// Layouts of the outputs that somebody wants; nothing where any will do.
using WantedOutputs = std::vector<std::optional<Wish>>;

Analysis analyze(const ir::FunctionPtr& function, const std::vector<ValueLayout>& inputs, const WantedOutputs& outputs,
                 const Setting& setting, const std::vector<bool>& zero_inputs = {});

/// Analyses of sub-functions. Each sweep over a function asks for those of its loops again, and each of theirs for those
/// inside: without them, nests would take a power of their depth.
class AnalyzedBodies {
 public:
  using BodyPtr = std::shared_ptr<const Analysis>;
  BodyPtr analyzed(const ir::FunctionPtr& body, const std::vector<ValueLayout>& inputs, const WantedOutputs& outputs,
                   const Setting& setting, const std::vector<bool>& zeros);

 private:
  struct Known {
    std::vector<ValueLayout> inputs;
    WantedOutputs outputs;
    std::vector<bool> zeros;
    BodyPtr analysis;
  };
  std::map<const ir::Function*, std::vector<Known>> known_;  // a function lives in its analyses
};

/// The question an equation poses, with the operands as they are; the op's rule answers it.
Resolution resolve_equation(const Analysis& analysis, std::size_t equation, std::span<const Wish> wishes,
                            const Setting& setting);
/// Whether the equation is a collective, or the like, of a source that knows one replica: it is its operand.
bool is_of_one_replica(const ir::Equation& equation);
/// What the readers of the equation's results wish.
std::vector<Wish> wishes_of(const Analysis& analysis, const ir::Equation& equation);

/// Of an equation with sub-functions.
bool has_bodies(const ir::Equation& equation);
EquationPlan plan_bodies(const Analysis& analysis, const ir::Equation& equation, std::span<const Wish> wishes,
                         const Setting& setting);

/// Per equation, whether it has an effect or an output reads what it gives.
std::vector<bool> live_equations(const ir::Function& function);
/// How many live equations and outputs read each value.
std::vector<int> readers_of(const ir::Function& function, const std::vector<bool>& live);

/// A layout with each dimension asked for.
Wish wish_for(const ValueLayout& layout);
/// Likewise of outputs; nothing where any layout will do.
WantedOutputs wishes_for(const std::vector<std::optional<ValueLayout>>& outputs);
/// The layouts that a function's outputs then get: those asked for, or as they come, reduced.
std::vector<ValueLayout> settled_outputs(const Analysis& analysis,
                                         const std::vector<std::optional<ValueLayout>>& outputs);

}  // namespace lockstep::partition
