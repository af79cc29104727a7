#include "engine/partition/analysis.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

#include "engine/core/current_layer.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/constants/zeros.h"
#include "engine/ops/primitives.h"

namespace lockstep::partition {

namespace {

/// Layouts are handed forwards, wishes backwards, this often: a chain of values that nothing but a reader far behind it
/// says anything of takes two.
constexpr int sweeps = 3;

/// Whether results are zeros because operand 0 is, which is moved or converted; or because they are made so.
bool makes_zeros(const ir::Equation& equation, const std::vector<bool>& zeros) {
  if (ops::writes_zeros(equation)) return true;
  const bool keeps = ir::moves_one(equation.primitive->traits) || equation.primitive == &ops::primitives::convert();
  return keeps && zeros[equation.inputs[0].id];
}

/// A wish that both readers have.
void join_wish(std::optional<Wish>& all, const Wish& more) {
  if (!all) {
    all = more;
    return;
  }
  for (std::size_t d = 0; d < more.size(); ++d) {
    std::optional<CutAxes>& own = (*all)[d];
    if (own && more[d]) own = common_prefix(*own, *more[d]);
    if (!own) own = more[d];
  }
}

class Analyzer {
 public:
  Analyzer(const ir::FunctionPtr& function, const std::vector<ValueLayout>& inputs, const WantedOutputs& outputs,
           const Setting& setting)
      : setting_(setting), outputs_(outputs) {
    result_.function = function;
    result_.layouts.resize(function->types().size());
    result_.zeros.resize(function->types().size());
    result_.wishes.resize(function->types().size());
    result_.live = live_equations(*function);
    result_.equations.resize(function->equations().size());
    readers_ = readers_of(*function, result_.live);
    for (std::size_t i = 0; i < inputs.size(); ++i) result_.layouts[function->inputs()[i].id] = inputs[i];
  }

  Analysis run(const std::vector<bool>& zero_inputs) {
    for (std::size_t i = 0; i < zero_inputs.size(); ++i) {
      result_.zeros[result_.function->inputs()[i].id] = zero_inputs[i];
    }
    add_output_wishes();
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      forwards();
      if (sweep + 1 < sweeps) backwards();
    }
    return std::move(result_);
  }

 private:
  const std::vector<ir::Equation>& equations() const { return result_.function->equations(); }

  void add_output_wishes() {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      if (outputs_[i]) join_wish(result_.wishes[result_.function->outputs()[i].id], *outputs_[i]);
    }
  }

  void forwards() {
    for (std::size_t i = 0; i < equations().size(); ++i) {
      const ir::Equation& equation = equations()[i];
      if (!result_.live[i]) continue;
      const std::vector<Wish> wishes = wishes_of(result_, equation);
      EquationPlan& plan = result_.equations[i];
      if (has_bodies(equation)) {
        plan = plan_bodies(result_, equation, wishes, setting_);
      } else {
        plan.resolution = resolve_equation(result_, i, wishes, setting_);
      }
      const bool zeros =
          !equation.inputs.empty() || equation.outputs.size() == 1 ? makes_zeros(equation, result_.zeros) : false;
      for (std::size_t k = 0; k < equation.outputs.size(); ++k) {
        const ir::Var v = equation.outputs[k];
        result_.zeros[v.id] = zeros;
        result_.layouts[v.id] = as_read(v, plan.resolution.results[k]);
      }
    }
  }

  /// A sum that several read is reduced once, right where it comes to be: into blocks where its readers wish for them.
  ValueLayout as_read(ir::Var v, ValueLayout layout) const {
    const bool is_read_once = readers_[v.id] < 2 && setting_.contraction_blocks == 0;
    if (layout.sums.empty() || is_read_once) return layout;
    const std::optional<Wish>& wish = result_.wishes[v.id];
    AxisSet left = layout.sums;
    for (std::size_t d = 0; wish && d < wish->size(); ++d) {
      const std::optional<CutAxes>& wanted = (*wish)[d];
      CutAxes& own = layout.cuts[d];
      if (!wanted || common_prefix(own, *wanted) != own) continue;
      for (std::size_t k = own.size(); k < wanted->size() && left.contains((*wanted)[k]); ++k) {
        CutAxes longer = own;
        longer.push_back((*wanted)[k]);
        const std::int64_t extent = result_.function->type(v).shape[static_cast<int>(d)];
        if (extent % blocks(longer, setting_.mesh) != 0) break;
        left = left.without({(*wanted)[k]});
        own = std::move(longer);
      }
    }
    layout.sums = {};
    return layout;
  }

  void backwards() {
    result_.wishes.assign(result_.wishes.size(), std::nullopt);
    add_output_wishes();
    for (std::size_t i = equations().size(); i-- > 0;) {
      const ir::Equation& equation = equations()[i];
      if (!result_.live[i]) continue;
      const std::vector<Wish> wishes = wishes_of(result_, equation);
      const Resolution resolution = has_bodies(equation) ? plan_bodies(result_, equation, wishes, setting_).resolution
                                                         : resolve_equation(result_, i, wishes, setting_);
      for (std::size_t k = 0; k < equation.inputs.size(); ++k) {
        join_wish(result_.wishes[equation.inputs[k].id], resolution.wishes[k]);
      }
    }
  }

  const Setting& setting_;
  const WantedOutputs& outputs_;
  Analysis result_;
  std::vector<int> readers_;
};

}  // namespace

std::vector<bool> live_equations(const ir::Function& function) {
  std::vector<bool> needed(function.types().size());
  for (const ir::Var v : function.outputs()) needed[v.id] = true;
  std::vector<bool> live(function.equations().size());
  for (std::size_t i = live.size(); i-- > 0;) {
    const ir::Equation& equation = function.equations()[i];
    live[i] =
        has_effects(equation) || std::ranges::any_of(equation.outputs, [&](ir::Var v) { return bool(needed[v.id]); });
    if (!live[i]) continue;
    for (const ir::Var v : equation.inputs) needed[v.id] = true;
  }
  return live;
}

std::vector<int> readers_of(const ir::Function& function, const std::vector<bool>& live) {
  std::vector<int> count(function.types().size());
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (!live[i]) continue;
    std::vector<ir::Var> read = function.equations()[i].inputs;
    std::ranges::sort(read);
    const auto repeated = std::ranges::unique(read);
    read.erase(repeated.begin(), repeated.end());
    for (const ir::Var v : read) ++count[v.id];
  }
  for (const ir::Var v : function.outputs()) ++count[v.id];
  return count;
}

Wish wish_for(const ValueLayout& layout) { return {layout.cuts.begin(), layout.cuts.end()}; }

std::vector<Wish> wishes_of(const Analysis& analysis, const ir::Equation& equation) {
  std::vector<Wish> wishes;
  for (const ir::Var v : equation.outputs) {
    const auto rank = static_cast<std::size_t>(analysis.function->type(v).shape.rank());
    wishes.push_back(analysis.wishes[v.id].value_or(Wish(rank)));
  }
  return wishes;
}

WantedOutputs wishes_for(const std::vector<std::optional<ValueLayout>>& outputs) {
  WantedOutputs wanted;
  for (const auto& layout : outputs) wanted.push_back(layout ? std::optional(wish_for(*layout)) : std::nullopt);
  return wanted;
}

std::vector<ValueLayout> settled_outputs(const Analysis& analysis,
                                         const std::vector<std::optional<ValueLayout>>& outputs) {
  std::vector<ValueLayout> layouts;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    ValueLayout free = analysis.layout(analysis.function->outputs()[i]);
    free.sums = {};
    layouts.push_back(outputs[i].value_or(std::move(free)));
  }
  return layouts;
}

namespace {

/// The layout that a reshard asks for. Throws MeshError for an axis that the mesh has not, ShapeError where shards cannot
/// share an extent.
ValueLayout asked_layout(const ir::Equation& equation, ArrayType type, const ir::AxisSizes& mesh) {
  type.varying = {};
  const auto& entries = equation.attrs.get<std::vector<std::string>>("layout");
  const std::string at = place::text_of(equation.provenance.at);
  const std::string who = std::string(ops::primitives::reshard().name) + (at.empty() ? "" : " at " + at);
  for (const std::string& entry : entries) {
    for (const std::string& axis : ops::collective::axes_of_dimension(entry)) {
      const auto has = [&](const auto& own) { return own.name == axis; };
      if (std::ranges::any_of(mesh.axes(), has)) continue;
      std::vector<std::string> names;
      for (const auto& own : mesh.axes()) names.push_back("\"" + own.name + "\"");
      throw MeshError(
          fmt::format("{}: {} is to be cut along \"{}\", which the mesh does not have; expected one of {}; "
                      "name one of these or give the mesh that axis",
                      who, lockstep::to_string(type), axis, fmt::join(names, ", ")));
    }
  }
  ValueLayout layout = layout_of(entries, mesh);
  for (std::size_t d = 0; d < layout.cuts.size(); ++d) {
    const std::int64_t extent = type.shape[static_cast<int>(d)], count = blocks(layout.cuts[d], mesh);
    if (extent % count == 0) continue;
    throw ShapeError(
        fmt::format("{}: {} is to be cut in dimension {} along \"{}\": its extent {} is no multiple of {} "
                    "shards; make it one, or leave this dimension whole",
                    who, lockstep::to_string(type), d, fmt::join(layout.cuts[d], ","), extent, count));
  }
  return layout;
}

}  // namespace

bool is_of_one_replica(const ir::Equation& equation) {
  const ir::Primitive* primitive = equation.primitive;
  if (primitive == &ops::primitives::pmap()) return false;
  if (primitive == &ops::primitives::reshard()) return true;  // how an array lies between calls says nothing here
  return primitive->traits.collective || primitive->traits.typed_axes;
}

Resolution resolve_equation(const Analysis& analysis, std::size_t index, std::span<const Wish> wishes,
                            const Setting& setting) {
  const ir::Equation& equation = analysis.function->equations()[index];
  std::vector<OperandState> operands;
  for (const ir::Var v : equation.inputs) {
    operands.push_back({&analysis.function->type(v), analysis.layout(v), analysis.zeros[v.id]});
  }
  std::vector<ArrayType> results;
  for (const ir::Var v : equation.outputs) results.push_back(analysis.function->type(v));
  if (equation.primitive == &ops::primitives::with_layout()) {
    const ValueLayout asked = asked_layout(equation, results[0], setting.mesh);
    return {{asked}, {wish_for(asked)}, {asked}, {}, {{}}, {{}}};
  }
  const ir::Primitive* primitive = equation.primitive;
  if (is_of_one_replica(equation)) {  // what says nothing to sums, or reduces them
    primitive = primitive == &ops::primitives::pvary() ? &ops::primitives::neg() : &ops::primitives::stop_gradient();
  }
  return resolve({*primitive, equation.attrs, operands, results, wishes, setting});
}

Analysis analyze(const ir::FunctionPtr& function, const std::vector<ValueLayout>& inputs, const WantedOutputs& outputs,
                 const Setting& setting, const std::vector<bool>& zero_inputs) {
  return Analyzer(function, inputs, outputs, setting).run(zero_inputs);
}

AnalyzedBodies::BodyPtr AnalyzedBodies::analyzed(const ir::FunctionPtr& body, const std::vector<ValueLayout>& inputs,
                                                 const WantedOutputs& outputs, const Setting& setting,
                                                 const std::vector<bool>& zeros) {
  for (const Known& known : known_[body.get()]) {
    if (known.inputs == inputs && known.outputs == outputs && known.zeros == zeros) return known.analysis;
  }
  auto found = std::make_shared<const Analysis>(analyze(body, inputs, outputs, setting, zeros));
  known_[body.get()].push_back({inputs, outputs, zeros, found});
  return found;
}

}  // namespace lockstep::partition
