#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "engine/core/lists.h"
#include "engine/ir/builder.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/element_groups.h"
#include "engine/passes/pass.h"

// Groups of element-wise equations become one equation each.
namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

class Fuser {
 public:
  explicit Fuser(const ir::Function& function) : f_(function), groups_(function) {}

  FunctionPtr run() {
    recompute(groups_);
    choose_groups();
    return write();
  }

 private:
  const Equation& equation(int i) const { return groups_.equation(i); }
  int equations() const { return static_cast<int>(groups_.equations().size()); }

  /// Those of at least two members and not too many arrays; and which values each must give.
  void choose_groups() {
    note_given();
    for (int g = 0; g < groups_.count(); ++g) {
      ElementGroup& it = groups_.group(g);
      std::ranges::sort(it.members);
      std::size_t arrays = it.reads.size() + it.sums.size();
      for (const int i : it.members) arrays += is_given_[groups_.result_of(i).id] ? 1 : 0;
      const bool pays = it.members.size() > 1 || (!it.members.empty() && !it.sums.empty()) || !it.copies.empty() ||
                        (it.members.size() == 1 && reads_repeated(it.members[0]));
      it.is_chosen = pays && arrays <= most_arrays;
    }
  }

  void note_given() {
    is_given_.assign(f_.types().size(), false);
    for (const Var v : f_.outputs()) is_given_[v.id] = true;
    const auto note = [&](int i, int own) {
      for (const Var v : equation(i).inputs) {
        if (own == none || !groups_.computes(own, v)) is_given_[v.id] = true;
      }
    };
    for (int i = 0; i < equations(); ++i) {
      if (!groups_.is_dropped(i)) note(i, groups_.group_that_holds(i));
    }
    for (int g = 0; g < groups_.count(); ++g) {
      for (const int i : groups_.group(g).copies) note(i, g);
    }
  }

  bool reads_repeated(int i) const {
    return std::ranges::any_of(
        equation(i).inputs, [&](Var v) { return groups_.constant(v) != nullptr || groups_.spreading(v) != nullptr; });
  }

  /// Equations stay in their order. Of a group's places that is the first where all that it reads has been written, for
  /// some members may come from far before the others, or the place of what reads it.
  FunctionPtr write() {
    Draft draft(f_);
    draft.equations.clear();
    is_written_.assign(groups_.equations().size(), false);
    for (int i = 0; i < equations(); ++i) {
      if (!groups_.is_dropped(i) && !waits(i)) write_with_reads(i, draft);
    }
    return draft.finish();
  }

  bool is_written(int i) const { return nth(is_written_, i); }

  /// The group that the equation is written with, or `none`.
  int chosen_group(int i) {
    const int g = groups_.group_that_holds(i);
    return g != none && groups_.group(g).is_chosen ? g : none;
  }

  std::vector<int> written_with(int i) {
    const int g = chosen_group(i);
    return g == none ? std::vector<int>{i} : groups_.group(g).computed();
  }

  /// The equations before which these cannot be written.
  std::vector<int> missing(const std::vector<int>& computed) {
    std::vector<int> result;
    for (const int m : computed) {
      for (const Var v : equation(m).inputs) {
        const int before = groups_.definition(v);
        if (before >= 0 && !is_written(before) && std::ranges::count(computed, before) == 0) result.push_back(before);
      }
    }
    return result;
  }

  /// Whether a later place of its group will do.
  bool waits(int i) {
    const int g = chosen_group(i);
    return g != none && i < groups_.group(g).members.back() && !missing(written_with(i)).empty();
  }

  void write_with_reads(int wanted, Draft& draft) {
    std::vector<std::pair<int, bool>> open;  // an equation, and whether what it reads has been written
    open.emplace_back(wanted, false);
    while (!open.empty()) {
      const auto [i, is_ready] = open.back();
      open.pop_back();
      if (is_written(i)) continue;
      const std::vector<int> computed = written_with(i);
      if (!is_ready) {
        open.emplace_back(i, true);
        for (const int before : missing(computed)) open.emplace_back(before, false);
        continue;
      }
      const int g = chosen_group(i);
      draft.equations.push_back(g == none ? equation(i) : fused(g));
      for (const int m : computed) {
        if (g == none || groups_.group_that_holds(m) == g) nth(is_written_, m) = true;
      }
    }
  }

  Equation fused(int g) {
    const ElementGroup& group = groups_.group(g);
    ir::Builder builder(f_.axes());
    std::map<Var, Var> inside;
    Equation result{&ops::primitives::fused(), {}, {}, {}, equation(group.members[0]).provenance};
    const auto input = [&](Var v) {
      const auto [at, is_new] = inside.try_emplace(v);
      if (is_new) {
        at->second = builder.input(f_.type(v));
        result.inputs.push_back(v);
      }
      return at->second;
    };
    const auto operand = [&](Var v) {
      if (const auto at = inside.find(v); at != inside.end()) return at->second;
      if (const Equation* full = groups_.constant(v); full != nullptr) {
        const Attrs attrs = full->attrs.with("shape", f_.type(v).shape.to_vector());
        return inside[v] = builder.pvary(builder.apply(*full->primitive, {}, attrs)[0], f_.type(v).varying);
      }
      if (const Equation* spread = groups_.spreading(v); spread != nullptr) {
        return inside[v] = builder.apply(*spread->primitive, {input(spread->inputs[0])}, spread->attrs)[0];
      }
      return input(v);
    };
    std::vector<Var> outputs;
    for (const int i : group.computed()) {
      const Equation& e = equation(i);
      std::vector<Var> operands;
      for (const Var v : e.inputs) operands.push_back(operand(v));
      builder.set_provenance(e.provenance);
      inside[e.outputs[0]] = builder.apply(*e.primitive, operands, e.attrs)[0];
      if (!is_given_[e.outputs[0].id] || groups_.group_that_holds(i) != g) continue;
      outputs.push_back(inside[e.outputs[0]]);
      result.outputs.push_back(e.outputs[0]);
    }
    result.attrs = {{"body", std::shared_ptr<const AttrObject>(builder.finish(std::move(outputs)))}};
    return result;
  }

  const ir::Function& f_;
  ElementGroups groups_;
  std::vector<bool> is_given_;    // by var: read outside of its group
  std::vector<bool> is_written_;  // by equation
};

}  // namespace

FunctionPtr fuse(const FunctionPtr& function) {
  Draft draft(*function);
  for (Equation& e : draft.equations) {
    if (e.primitive != &ops::primitives::fused()) e = map_sub_functions(e, fuse);
  }
  const FunctionPtr inner = draft.finish();
  return dce(Fuser(*inner).run());
}

}  // namespace lockstep::passes
