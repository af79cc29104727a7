#include "engine/partition/derivative_rules.h"

#include <utility>

#include "engine/ops/call/implicit.h"
#include "engine/ops/primitives.h"
#include "engine/ops/rules/sub_function.h"

namespace lockstep::partition {

namespace {

using Wanted = std::vector<std::optional<ValueLayout>>;

bool is_implicit(const ir::Equation& equation) {
  return equation.primitive == &ops::linear_solve() || equation.primitive == &ops::root();
}

std::size_t count_of(const ir::Equation& equation, const char* attribute) {
  return static_cast<std::size_t>(equation.attrs.get<std::int64_t>(attribute));
}

std::vector<ValueLayout> first(const std::vector<ValueLayout>& layouts, std::size_t count) {
  return {layouts.begin(), layouts.begin() + static_cast<std::ptrdiff_t>(count)};
}

/// The layouts of what is float or complex.
std::vector<ValueLayout> of_inexact(const std::vector<ValueLayout>& layouts, const std::vector<ArrayType>& types) {
  std::vector<ValueLayout> result;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    if (is_inexact(types[i].dtype)) result.push_back(layouts[i]);
  }
  return result;
}

Wanted wanted(const std::vector<ValueLayout>& layouts) { return {layouts.begin(), layouts.end()}; }

/// Writes the functions of one call.
class Rules {
 public:
  Rules(const ir::Equation& equation, const Resolution& resolution, const Partitioner& partitioned)
      : equation_(equation),
        in_(resolution.operands),
        out_(resolution.results),
        partitioned_(partitioned),
        attrs_(equation.attrs) {}

  Attrs jvp() {
    std::vector<ValueLayout> in = in_, out = out_;
    ops::sub_function::append(in, of_arguments());
    ops::sub_function::append(out, of_results());
    put("jvp", in, wanted(out));
    return attrs_;
  }

  Attrs vjp() {
    Wanted out = wanted(out_);
    out.resize(function("fwd")->outputs().size());
    std::vector<ValueLayout> residuals = put("fwd", in_, out);
    residuals.erase(residuals.begin(), residuals.begin() + static_cast<std::ptrdiff_t>(out_.size()));
    ops::sub_function::append(residuals, of_results());
    put("bwd", residuals, wanted(of_arguments()));
    return attrs_;
  }

  /// All functions take constants and as many vectors as they have, and give one.
  Attrs implicit() {
    const std::size_t consts = count_of(equation_, "consts");
    const std::vector<ValueLayout> vector(in_.begin() + static_cast<std::ptrdiff_t>(consts), in_.end());
    for (const char* name : {"residual", "matvec", "solve", "transposed"}) {
      if (!equation_.attrs.has(name)) continue;
      std::vector<ValueLayout> in = first(in_, consts);
      while (in.size() < function(name)->inputs().size()) ops::sub_function::append(in, vector);
      put(name, in, wanted(vector));
    }
    return attrs_;
  }

 private:
  ir::FunctionPtr function(const char* name) const { return ir::sub_function(equation_.attrs, name); }
  std::vector<ValueLayout> of_arguments() const {
    std::vector<ArrayType> types = function("body")->input_types();
    const std::size_t arguments = count_of(equation_, "arguments");
    types.resize(arguments);
    return of_inexact(first(in_, arguments), types);
  }
  std::vector<ValueLayout> of_results() const { return of_inexact(out_, function("body")->output_types()); }

  std::vector<ValueLayout> put(const char* name, const std::vector<ValueLayout>& in, const Wanted& out) {
    OnBlocks blocks = partitioned_(function(name), in, out);
    attrs_ = attrs_.with(name, ops::sub_function::attribute(blocks.function));
    return std::move(blocks.outputs);
  }

  const ir::Equation& equation_;
  const std::vector<ValueLayout>& in_;
  const std::vector<ValueLayout>& out_;
  const Partitioner& partitioned_;
  Attrs attrs_;
};

}  // namespace

bool has_derivative_rule(const ir::Equation& equation) {
  return equation.primitive == &ops::primitives::custom_jvp() || equation.primitive == &ops::primitives::custom_vjp() ||
         is_implicit(equation);
}

std::vector<ValueLayout> results_of_rule(const ir::Equation& equation, const std::vector<ValueLayout>& operands,
                                         std::vector<ValueLayout> of_body) {
  if (is_implicit(equation))
    return {operands.begin() + static_cast<std::ptrdiff_t>(count_of(equation, "consts")), operands.end()};
  for (ValueLayout& layout : of_body) layout.sums = {};
  return of_body;
}

Attrs rules_on_blocks(const ir::Equation& equation, const Resolution& resolution, const Partitioner& partitioned) {
  Rules rules(equation, resolution, partitioned);
  if (is_implicit(equation)) return rules.implicit();
  return equation.primitive == &ops::primitives::custom_jvp() ? rules.jvp() : rules.vjp();
}

}  // namespace lockstep::partition
