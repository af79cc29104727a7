#include <algorithm>

#include <lockstep/error.h>

#include "engine/ir/control_flow.h"
#include "engine/ops/primitives.h"
#include "engine/partition/analysis.h"
#include "engine/partition/derivative_rules.h"

namespace lockstep::partition {

namespace {

/// Beyond this a carry's layout only loses cuts, so that it settles.
constexpr int rounds_that_add = 3;

using BodyPtr = std::shared_ptr<const Analysis>;

BodyPtr analyzed(const ir::FunctionPtr& body, const std::vector<ValueLayout>& inputs, const WantedOutputs& outputs,
                 const Setting& setting, const std::vector<bool>& zeros = {}) {
  if (setting.bodies) return setting.bodies->analyzed(body, inputs, outputs, setting, zeros);
  return std::make_shared<const Analysis>(analyze(body, inputs, outputs, setting, zeros));
}

ValueLayout reduced(ValueLayout layout) {
  layout.sums = {};
  return layout;
}

/// Without the leading dimension, which is whole.
ValueLayout row_of(ValueLayout layout) {
  layout.cuts.erase(layout.cuts.begin());
  return reduced(std::move(layout));
}
ValueLayout stacked(ValueLayout layout) {
  layout.cuts.insert(layout.cuts.begin(), CutAxes());
  return layout;
}
Wish stacked(Wish wish) {
  wish.insert(wish.begin(), std::optional<CutAxes>());
  return wish;
}
Wish row_of(Wish wish) {
  wish.erase(wish.begin());
  return wish;
}

/// What the readers inside of a body wish of its input.
Wish wish_of_input(const Analysis& body, std::size_t input) {
  const ir::Var v = body.function->inputs()[input];
  const auto rank = static_cast<std::size_t>(body.function->type(v).shape.rank());
  return body.wishes[v.id].value_or(Wish(rank));
}

ValueLayout layout_of_output(const Analysis& body, std::size_t output) {
  return body.layout(body.function->outputs()[output]);
}

/// What a carry is on the way in, and what the body makes of it: the layout to try next.
ValueLayout next_carry(const ValueLayout& in, const ValueLayout& out, bool starts_at_zero, bool may_add) {
  ValueLayout next = in;
  for (std::size_t d = 0; d < in.cuts.size(); ++d) {
    const CutAxes prefix = common_prefix(in.cuts[d], out.cuts[d]);
    next.cuts[d] = may_add && prefix == in.cuts[d] ? out.cuts[d] : prefix;
  }
  next.sums = may_add && starts_at_zero ? out.sums : AxisSet();
  // An axis that now cuts two dimensions, or sums as well, goes back to what it was.
  AxisSet seen = next.sums;
  for (CutAxes& cut : next.cuts) {
    const auto repeated = std::ranges::find_if(cut, [&](const std::string& axis) { return seen.contains(axis); });
    cut.erase(repeated, cut.end());
    seen = seen.joined(AxisSet(cut));
  }
  return next;
}

/// The layouts that carries of a loop keep, and the analysis of its body with them.
struct Settled {
  std::vector<ValueLayout> carries;
  BodyPtr body;
};

struct LoopBody {
  ir::FunctionPtr function;
  std::vector<ValueLayout> before;  ///< Inputs ahead of the carries.
  std::vector<ValueLayout> behind;
  std::vector<std::optional<Wish>> other_outputs;
};

Settled settle(const LoopBody& loop, std::vector<ValueLayout> carries, const std::vector<bool>& zeros,
               const Setting& setting) {
  for (int round = 0;; ++round) {
    // What is added to zeros may stay a sum that is not reduced: behind the loop it is reduced once. Only the first
    // iteration's carries are zeros, so that is a first guess.
    const bool is_guess =
        round == 0 && setting.contraction_blocks == 0 && std::ranges::find(zeros, true) != zeros.end();
    std::vector<bool> known(loop.before.size() + carries.size() + loop.behind.size());
    if (is_guess) std::copy(zeros.begin(), zeros.end(), known.begin() + std::ssize(loop.before));
    std::vector<ValueLayout> inputs = loop.before;
    inputs.insert(inputs.end(), carries.begin(), carries.end());
    inputs.insert(inputs.end(), loop.behind.begin(), loop.behind.end());
    WantedOutputs outputs;
    for (const ValueLayout& carry : carries) outputs.emplace_back(wish_for(carry));
    outputs.insert(outputs.end(), loop.other_outputs.begin(), loop.other_outputs.end());
    BodyPtr body = analyzed(loop.function, inputs, outputs, setting, known);
    std::vector<ValueLayout> next;
    for (std::size_t i = 0; i < carries.size(); ++i) {
      next.push_back(next_carry(carries[i], layout_of_output(*body, i), zeros[i], round < rounds_that_add));
    }
    if ((next == carries && !is_guess) || round > 2 * rounds_that_add + 16)
      return {std::move(carries), std::move(body)};
    carries = std::move(next);
  }
}

class BodyPlanner {
 public:
  BodyPlanner(const Analysis& outer, const ir::Equation& equation, std::span<const Wish> wishes, const Setting& setting)
      : outer_(outer), equation_(equation), wishes_(wishes), setting_(setting) {}

  EquationPlan scan() const {
    const ir::Scan scan = ir::Scan::of(equation_.attrs);
    const std::size_t first_x = scan.consts + scan.carries;
    LoopBody loop{scan.body, {}, {}, {}};
    for (std::size_t i = 0; i < scan.consts; ++i) loop.before.push_back(operand(i));
    for (std::size_t i = first_x; i < equation_.inputs.size(); ++i) loop.behind.push_back(row_of(operand(i)));
    for (std::size_t k = scan.carries; k < wishes_.size(); ++k) loop.other_outputs.emplace_back(row_of(wishes_[k]));
    const Settled settled =
        settle(loop, carries(scan.consts, scan.carries), zeros(scan.consts, scan.carries), setting_);
    EquationPlan plan;
    for (std::size_t i = 0; i < equation_.inputs.size(); ++i) {
      const bool is_x = i >= first_x;
      const bool is_carry = i >= scan.consts && !is_x;
      ValueLayout layout = is_carry ? settled.carries[i - scan.consts]
                           : is_x   ? stacked(loop.behind[i - first_x])
                                    : operand(i);
      Wish wish = is_carry ? wish_for(layout) : wish_of_input(*settled.body, i);
      add_operand(plan, std::move(layout), is_x ? stacked(std::move(wish)) : std::move(wish));
    }
    for (const ValueLayout& carry : settled.carries) plan.resolution.results.push_back(carry);
    for (std::size_t k = scan.carries; k < equation_.outputs.size(); ++k) {
      plan.resolution.results.push_back(stacked(layout_of_output(*settled.body, k)));
    }
    plan.bodies = {settled.body};
    return plan;
  }

  EquationPlan while_loop() const {
    const ir::WhileLoop loop = ir::WhileLoop::of(equation_.attrs);
    const std::size_t first = loop.cond_consts + loop.body_consts;
    LoopBody body{loop.body, {}, {}, {}};
    for (std::size_t i = loop.cond_consts; i < first; ++i) body.before.push_back(operand(i));
    const Settled settled = settle(body, carries(first, loop.carries()), std::vector<bool>(loop.carries()), setting_);
    std::vector<ValueLayout> inputs;
    for (std::size_t i = 0; i < loop.cond_consts; ++i) inputs.push_back(operand(i));
    inputs.insert(inputs.end(), settled.carries.begin(), settled.carries.end());
    EquationPlan plan;
    plan.bodies = {analyzed(loop.cond, inputs, {wish_for(whole(0))}, setting_), settled.body};
    for (std::size_t i = 0; i < equation_.inputs.size(); ++i) {
      ValueLayout layout = i < first ? operand(i) : settled.carries[i - first];
      Wish wish = wish_for(layout);
      add_operand(plan, std::move(layout), std::move(wish));
    }
    plan.resolution.results = settled.carries;
    return plan;
  }

  EquationPlan cond() const {
    const ir::Cond cond = ir::Cond::of(equation_.attrs);
    EquationPlan plan;
    std::vector<ValueLayout> arguments;
    add_operand(plan, whole(0), {});
    for (std::size_t i = 1; i < equation_.inputs.size(); ++i) {
      arguments.push_back(operand(i));
      add_operand(plan, operand(i), Wish(operand(i).cuts.size()));
    }
    for (const ir::FunctionPtr& branch : cond.branches)
      plan.bodies.push_back(analyzed(branch, arguments, wanted(), setting_));
    for (std::size_t k = 0; k < equation_.outputs.size(); ++k) {
      ValueLayout layout = reduced(layout_of_output(*plan.bodies[0], k));
      for (const BodyPtr& branch : plan.bodies) {
        const ValueLayout other = layout_of_output(*branch, k);
        for (std::size_t d = 0; d < layout.cuts.size(); ++d) {
          layout.cuts[d] = common_prefix(layout.cuts[d], other.cuts[d]);
        }
      }
      plan.resolution.results.push_back(std::move(layout));
    }
    return plan;
  }

  /// Of an op whose value is that of its body; of a map over one replica too.
  EquationPlan call() const {
    std::vector<ValueLayout> arguments;
    std::vector<bool> zeros;
    for (std::size_t i = 0; i < equation_.inputs.size(); ++i) {
      arguments.push_back(operand(i));
      zeros.push_back(outer_.zeros[equation_.inputs[i].id]);
    }
    EquationPlan plan;
    plan.bodies = {analyzed(ir::sub_function(equation_.attrs, "body"), arguments, wanted(), setting_, zeros)};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      add_operand(plan, arguments[i], wish_of_input(*plan.bodies[0], i));
    }
    for (std::size_t k = 0; k < equation_.outputs.size(); ++k) {
      plan.resolution.results.push_back(layout_of_output(*plan.bodies[0], k));
    }
    if (has_derivative_rule(equation_)) {
      plan.resolution.results = results_of_rule(equation_, arguments, std::move(plan.resolution.results));
    }
    return plan;
  }

 private:
  ValueLayout operand(std::size_t i) const { return reduced(outer_.layout(equation_.inputs[i])); }
  WantedOutputs wanted() const { return {wishes_.begin(), wishes_.end()}; }
  std::vector<ValueLayout> carries(std::size_t first, std::size_t count) const {
    std::vector<ValueLayout> layouts;
    for (std::size_t i = 0; i < count; ++i) layouts.push_back(operand(first + i));
    return layouts;
  }
  std::vector<bool> zeros(std::size_t first, std::size_t count) const {
    std::vector<bool> flags;
    for (std::size_t i = 0; i < count; ++i) flags.push_back(outer_.zeros[equation_.inputs[first + i].id]);
    return flags;
  }
  static void add_operand(EquationPlan& plan, ValueLayout layout, Wish wish) {
    plan.resolution.operands.push_back(std::move(layout));
    plan.resolution.wishes.push_back(std::move(wish));
  }

  const Analysis& outer_;
  const ir::Equation& equation_;
  std::span<const Wish> wishes_;
  const Setting& setting_;
};

}  // namespace

bool has_bodies(const ir::Equation& equation) {
  return equation.primitive == &ops::primitives::pmap() || equation.primitive->traits.call ||
         equation.primitive->traits.loop;
}

EquationPlan plan_bodies(const Analysis& analysis, const ir::Equation& equation, std::span<const Wish> wishes,
                         const Setting& setting) {
  const BodyPlanner planner(analysis, equation, wishes, setting);
  if (equation.primitive == &ops::primitives::scan()) return planner.scan();
  if (equation.primitive == &ops::primitives::while_loop()) return planner.while_loop();
  if (equation.primitive == &ops::primitives::cond()) return planner.cond();
  if (equation.primitive == &ops::primitives::pmap()) {
    for (const std::int64_t size : equation.attrs.get<std::vector<std::int64_t>>("sizes")) {
      if (size == 1) continue;
      throw MeshError(
          "partition: the function has a pmap over " + std::to_string(size) +
          " replicas inside; expected a program on whole arrays; instead call the mapped function in place of its map "
          "and let the layouts of its operands cut it, or pmap all of it");
    }
  }
  return planner.call();
}

}  // namespace lockstep::partition
