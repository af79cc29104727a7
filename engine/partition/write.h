#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/partition/analysis.h"
#include "engine/partition/derivative_rules.h"
#include "engine/partition/moves.h"

// The function of blocks, once every layout is decided.
namespace lockstep::partition {

/// Writes one function into a builder of the body it belongs to.
class BlockWriter {
 public:
  /// `times`: how often the function runs in one call of the outermost one.
  BlockWriter(ir::Builder& builder, const Analysis& analysis, const Setting& setting, Moves& moves, std::int64_t times);

  /// The blocks of the outputs as `wanted` says, from those of the inputs as the analysis has them. `reader`: the equation
  /// whose sub-function this is; without one the outputs are results, whose layouts are asked for.
  std::vector<Value> write(std::span<const Value> inputs, std::span<const ValueLayout> wanted,
                           std::span<const std::string> output_names = {}, const ir::Equation* reader = nullptr);

 private:
  using Place = std::pair<std::uint32_t, std::string>;

  const ir::AxisSizes& mesh() const { return setting_.mesh; }
  const ir::Function& function() const { return *analysis_.function; }
  const ir::Equation* definition(ir::Var v) const;
  Value get(ir::Var v, const ValueLayout& target, const Asker& asker);
  std::optional<Value> made_again(ir::Var v, const ValueLayout& target);
  Asker asker_of(const ir::Equation& equation, std::size_t operand) const;
  bool is_total(const ir::Equation& equation) const;
  Asker asker_of_body(const ir::Equation& reader, ir::Var v) const;
  std::string maker_of(ir::Var v) const;
  std::string place_of(const ir::Equation* reader, ir::Var v) const;

  void write_equation(std::size_t index);
  std::vector<Value> on_blocks(const ir::Equation& equation, const Resolution& resolution);
  std::vector<Value> in_blocks(const ir::Equation& equation, const Resolution& resolution,
                               const std::vector<Value>& operands);
  std::vector<Value> operands_of(const ir::Equation& equation, const Resolution& resolution);
  /// Whether somebody asks for what reduces the value where it comes to be: a reshard that reads it, or results alone.
  bool is_asked_for(ir::Var v) const { return read_by_reshards_[v.id] || !read_by_ops_[v.id]; }
  void put(const ir::Equation& equation, const Resolution& resolution, const std::vector<Value>& results);

  std::vector<Value> with_bodies(const ir::Equation& equation, const EquationPlan& plan);
  std::vector<Value> scan(const ir::Equation& equation, const EquationPlan& plan);
  std::vector<Value> while_loop(const ir::Equation& equation, const EquationPlan& plan);
  std::vector<Value> cond(const ir::Equation& equation, const EquationPlan& plan);
  std::vector<Value> call(const ir::Equation& equation, const EquationPlan& plan);
  Partitioner partitioner_of_rules() const;
  ir::FunctionPtr body_of(const Analysis& body, std::span<const ValueLayout> outputs, std::int64_t times,
                          const ir::Equation* reader = nullptr);
  Value as_input(const Value& x, const ArrayType& type);

  ir::Builder& builder_;
  const Analysis& analysis_;
  const Setting& setting_;
  Moves& moves_;
  std::int64_t times_;
  std::map<std::uint32_t, std::size_t> definitions_;
  std::map<std::uint32_t, std::size_t> inputs_;
  std::vector<bool> read_by_ops_, read_by_reshards_, read_by_totals_;  // per var, by live ones
  std::map<Place, Value> placed_;
};

}  // namespace lockstep::partition
