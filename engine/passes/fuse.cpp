#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/element_loop.h>

#include "engine/ir/builder.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/draft.h"
#include "engine/passes/pass.h"

// Groups of element-wise equations become one equation each. Every equation has a level, above those of all that it
// reads; those of a group share one. What a group reads lies below it, so no way leads out of a group and back into it,
// and groups of one level may always be joined.
namespace lockstep::passes {
namespace {

using ir::Equation;
using ir::FunctionPtr;
using ir::Var;

// What a kernel can be expected to take.
constexpr std::size_t most_members = 64;
constexpr std::size_t most_arrays = 40;
constexpr std::size_t most_reads = 28;
constexpr std::size_t most_sums = 8;
constexpr int none = -1;
/// Work outside of maps is cut into tiles, so that all devices share it; sums are not. Arrays from that size on are
/// rather cut.
constexpr std::int64_t most_summed_outside = 1 << 16;

bool is_sum(const ir::Function& f, const Equation& e) {
  if (e.primitive != &ops::primitives::reduce_sum()) return false;
  const ArrayType& type = f.type(e.inputs[0]);
  return type.dtype == DType::float32 && (!type.varying.empty() || type.size() < most_summed_outside) &&
         sum_layout(type.shape, e.attrs.get<std::vector<std::int64_t>>("axes")).has_value();
}

bool is_element_op(const ir::Function& f, const Equation& e) {
  if (!e.primitive->traits.pointwise || e.outputs.size() != 1 || e.inputs.empty()) return false;
  const ArrayType& result = f.type(e.outputs[0]);
  return std::ranges::all_of(e.inputs, [&](Var v) {
    return f.type(v).shape == result.shape && can_stand_in_a_loop(e.primitive->name, f.type(v).dtype, result.dtype);
  });
}

bool is_move_of_constants(const std::string& op) {
  return op == "pvary" || op == "broadcast_in_dim" || op == "reshape" || op == "transpose";
}

class Fuser {
 public:
  explicit Fuser(const ir::Function& function)
      : f_(function), definition_(f_.types().size(), none), level_(f_.types().size(), 0) {}

  FunctionPtr run() {
    for (std::size_t i = 0; i < equations().size(); ++i) visit(static_cast<int>(i));
    note_readers();
    raise_groups();
    sink();
    choose_groups();
    return write();
  }

 private:
  struct Group {
    int level = 0;
    std::vector<int> members;  // equations
    std::vector<Var> reads;    // what members read, constants left out
    std::vector<int> sums;     // equations that add up what members give
    bool is_chosen = false;
  };

  const std::vector<Equation>& equations() const { return f_.equations(); }
  const Equation& equation(int i) const { return equations()[static_cast<std::size_t>(i)]; }
  bool spreads(const Equation& e) const {
    return e.primitive == &ops::primitives::broadcast_in_dim() &&
           f_.type(e.inputs[0]).shape != f_.type(e.outputs[0]).shape;
  }
  const Equation* defined_by(Var v) const {
    const int i = definition_[v.id];
    return i < 0 ? nullptr : &equation(i);
  }

  /// The `full` that gives all elements of `v` their value, or null.
  const Equation* constant(Var v) const {
    const Equation* e = defined_by(v);
    while (e != nullptr && is_move_of_constants(e->primitive->name)) e = defined_by(e->inputs[0]);
    return e != nullptr && e->primitive == &ops::primitives::full() ? e : nullptr;
  }
  /// The equation that repeats a smaller array along other dimensions, or null.
  const Equation* spreading(Var v) const {
    const Equation* e = defined_by(v);
    return e != nullptr && spreads(*e) ? e : nullptr;
  }

  // ---- groups

  int find(int group) {
    while (parent_[static_cast<std::size_t>(group)] != group) {
      int& up = parent_[static_cast<std::size_t>(group)];
      up = parent_[static_cast<std::size_t>(up)];
      group = up;
    }
    return group;
  }
  Group& group(int g) { return groups_[static_cast<std::size_t>(g)]; }
  int group_of(Var v) {
    const int i = definition_[v.id];
    const auto it = i < 0 ? group_of_equation_.end() : group_of_equation_.find(i);
    return it == group_of_equation_.end() ? none : find(it->second);
  }
  const ArrayType& type_of(int g) { return f_.type(equation(group(g).members[0]).outputs[0]); }
  bool fits(int g, const ArrayType& type) {
    return type_of(g).shape == type.shape && type_of(g).varying == type.varying;
  }

  int read_level(Var v) const { return constant(v) == nullptr ? level_[v.id] : 0; }

  void visit(int i) {
    const Equation& e = equation(i);
    int level = 0;
    for (const Var v : e.inputs) level = std::max(level, level_[v.id]);
    if (is_element_op(f_, e)) {
      level = add_to_group(i);
    } else if (is_sum(f_, e) && spreading(e.inputs[0]) == nullptr && group_of(e.inputs[0]) != none) {
      // It stands in the group but is none of the values that others may continue it from.
      group_of_sum_[i] = group_of(e.inputs[0]);
    } else if (!spreads(e)) {
      ++level;
    }
    for (const Var v : e.outputs) {
      level_[v.id] = level;
      definition_[v.id] = i;
    }
  }

  /// The level of the group that the equation comes to stand in.
  int add_to_group(int i) {
    Group own{1, {i}, {}, {}, false};
    for (const Var v : equation(i).inputs) {
      own.level = std::max(own.level, read_level(v) + 1);
      if (constant(v) == nullptr && !std::ranges::count(own.reads, v)) own.reads.push_back(v);
    }
    std::vector<int> joined = groups_it_continues(i, own.level - 1);
    if (!joined.empty() && fits_in_one(joined, own)) {
      --own.level;
    } else {
      joined.clear();
    }
    const int beside = neighbour(i, own);
    if (beside != none && !std::ranges::count(joined, beside)) {
      joined.push_back(beside);
      if (!fits_in_one(joined, own)) joined.pop_back();
    }
    const int g = new_group(std::move(own));
    for (const int other : joined) join(other, g);
    for (const Var v : group(g).reads) reader_[v.id] = g;
    return group(g).level;
  }

  /// The groups whose values at `level`, the highest one that it reads, are all that it reads there; none where it
  /// reads anything else there.
  std::vector<int> groups_it_continues(int i, int level) {
    const ArrayType& type = f_.type(equation(i).outputs[0]);
    std::vector<int> result;
    for (const Var v : equation(i).inputs) {
      if (read_level(v) < level || constant(v) != nullptr) continue;
      const int g = spreading(v) != nullptr ? none : group_of(v);
      if (g == none || !fits(g, type)) return {};
      if (!std::ranges::count(result, g)) result.push_back(g);
    }
    return result;
  }

  /// A group of the same level that reads one of its operands too.
  int neighbour(int i, const Group& own) {
    for (const Var v : own.reads) {
      const auto it = reader_.find(v.id);
      if (it == reader_.end()) continue;
      const int g = find(it->second);
      if (group(g).level == own.level && fits(g, f_.type(equation(i).outputs[0]))) return g;
    }
    return none;
  }

  bool fits_in_one(const std::vector<int>& joined, const Group& own) {
    std::size_t members = own.members.size();
    std::vector<Var> reads = own.reads;
    for (const int g : joined) {
      members += group(g).members.size();
      reads.insert(reads.end(), group(g).reads.begin(), group(g).reads.end());
    }
    std::ranges::sort(reads);
    const auto repeated = std::ranges::unique(reads);
    return members <= most_members && static_cast<std::size_t>(repeated.begin() - reads.begin()) <= most_reads;
  }

  int new_group(Group made) {
    const int g = static_cast<int>(groups_.size());
    group_of_equation_[made.members[0]] = g;
    groups_.push_back(std::move(made));
    parent_.push_back(g);
    return g;
  }

  void join(int from, int into) {
    parent_[static_cast<std::size_t>(from)] = into;
    Group& old = group(from);
    Group& all = group(into);
    all.members.insert(all.members.end(), old.members.begin(), old.members.end());
    for (const Var v : old.reads) {
      if (!std::ranges::count(all.reads, v)) all.reads.push_back(v);
    }
    std::erase_if(all.reads, [&](Var v) { return spreading(v) == nullptr && group_of(v) == into; });
    old = {};
  }

  // ---- equations that stand far from the group that reads them, such as what an optimizer does with its old state

  void note_readers() {
    readers_.assign(f_.types().size(), {});
    for (std::size_t i = 0; i < equations().size(); ++i) {
      for (const Var v : equations()[i].inputs) readers_[v.id].push_back(static_cast<int>(i));
    }
    for (const Var v : f_.outputs()) readers_[v.id].push_back(none);
  }

  /// Joins groups with a higher one that reads them, where nothing else at that level or below does.
  void raise_groups() {
    for (bool changed = true; changed;) {
      changed = false;
      for (int g = 0; g < static_cast<int>(groups_.size()); ++g) {
        if (group(g).members.empty()) continue;
        const std::vector<Var> values = values_of(g);
        const int to = lowest_reader(g, values);
        if (to == none || !fits(to, type_of(g)) || !fits_in_one({g}, group(to))) continue;
        for (const Var v : values) level_[v.id] = group(to).level;
        join(g, to);
        changed = true;
      }
    }
  }

  /// What members and sums of a group give.
  std::vector<Var> values_of(int g) {
    std::vector<Var> values;
    for (const int i : group(g).members) values.push_back(equation(i).outputs[0]);
    for (const auto& [i, of] : group_of_sum_) {
      if (find(of) == g) values.push_back(equation(i).outputs[0]);
    }
    return values;
  }

  /// The other group that is alone at the lowest level where these values are read, or none.
  int lowest_reader(int own, const std::vector<Var>& values) {
    int result = none;
    int lowest = std::numeric_limits<int>::max();
    for (const Var v : values) {
      for (const int reader : readers_[v.id]) {
        const int g = reader == none ? own : group_that_holds(reader);
        if (g == own) continue;
        const std::vector<Var>& given = equation(reader).outputs;
        const int level = g != none ? group(g).level : given.empty() ? 0 : level_[given[0].id];
        if (level == lowest && g != result) result = none;
        if (level < lowest) result = g;
        lowest = std::min(level, lowest);
      }
    }
    return result;
  }

  /// Moves an equation to the group that alone reads it, where less memory is read and written then.
  void sink() {
    for (int i = static_cast<int>(equations().size()); i-- > 0;) {
      const int own = group_of_index(i);
      if (own == none) continue;
      const int to = only_reader(equation(i).outputs[0]);
      if (to != none && to != own && fits(to, f_.type(equation(i).outputs[0])) && fits_in_one({to}, alone(i)) &&
          bytes_spared(i, own, to) > 0) {
        move(i, own, to);
      }
    }
  }

  /// The group that reads the value; none where there are several, or others do.
  int only_reader(Var v) {
    int result = none;
    for (const int reader : readers_[v.id]) {
      const int g = reader == none ? none : group_that_holds(reader);
      if (g == none || (result != none && g != result)) return none;
      result = g;
    }
    return result;
  }

  Group alone(int i) const {
    Group group{0, {i}, {}, {}, false};
    for (const Var v : equation(i).inputs) {
      if (constant(v) == nullptr && !std::ranges::count(group.reads, v)) group.reads.push_back(v);
    }
    return group;
  }

  double bytes(Var v) const {
    const Equation* spread = spreading(v);
    const ArrayType& type = f_.type(spread == nullptr ? v : spread->inputs[0]);
    return static_cast<double>(type.size()) * static_cast<double>(size_of(type.dtype));
  }

  /// By computing the equation in the group `to` rather than in `own`.
  double bytes_spared(int i, int own, int to) {
    const Var result = equation(i).outputs[0];
    double spared = 2 * bytes(result);
    for (const Var v : alone(i).reads) {
      if (!std::ranges::count(group(to).reads, v)) spared -= bytes(v);
      const auto is_here = [&](int reader) { return reader != none && group_that_holds(reader) == own; };
      const auto here = std::ranges::count_if(readers_[v.id], is_here);
      if (group_of(v) != own || spreading(v) != nullptr) {
        if (here == 1) spared += bytes(v);
      } else if (here == static_cast<std::ptrdiff_t>(readers_[v.id].size())) {
        spared -= bytes(v);
      }
    }
    return spared;
  }

  void move(int i, int own, int to) {
    std::erase(group(own).members, i);
    if (group(own).members.empty()) group(own) = {};
    group(to).members.push_back(i);
    std::erase(group(to).reads, equation(i).outputs[0]);
    for (const Var v : alone(i).reads) {
      if (!std::ranges::count(group(to).reads, v)) group(to).reads.push_back(v);
    }
    group_of_equation_[i] = to;
  }

  // ---- what becomes of them

  /// Those of at least two members and not too many arrays; and which values each must give.
  void choose_groups() {
    take_sums();
    is_given_.assign(f_.types().size(), false);
    for (const Var v : f_.outputs()) is_given_[v.id] = true;
    for (std::size_t i = 0; i < equations().size(); ++i) {
      const int own = group_that_holds(static_cast<int>(i));
      for (const Var v : equations()[i].inputs) {
        if (own == none || group_of(v) != own) is_given_[v.id] = true;
      }
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      Group& it = groups_[g];
      std::ranges::sort(it.members);
      std::size_t arrays = it.reads.size() + it.sums.size();
      for (const int i : it.members) arrays += is_given_[equation(i).outputs[0].id] ? 1 : 0;
      const bool pays = it.members.size() > 1 || (!it.members.empty() && !it.sums.empty()) ||
                        (it.members.size() == 1 && reads_repeated(it.members[0]));
      it.is_chosen = pays && arrays <= most_arrays;
    }
  }

  bool reads_repeated(int i) const {
    return std::ranges::any_of(equation(i).inputs,
                               [&](Var v) { return constant(v) != nullptr || spreading(v) != nullptr; });
  }

  /// What else a group computes in its loop: sums, unless its arrays lie in a way that a loop with sums cannot take.
  void take_sums() {
    for (auto& [i, g] : group_of_sum_) {
      g = find(g);
      group(g).sums.push_back(i);
    }
    for (Group& it : groups_) {
      if (sums_fit(it)) continue;
      for (const int i : it.sums) group_of_sum_.erase(i);
      it.sums.clear();
    }
  }

  bool sums_fit(const Group& it) const {
    if (it.sums.empty()) return true;
    const Shape& shape = f_.type(equation(it.sums[0]).inputs[0]).shape;
    std::optional<int> rows;
    std::array<bool, 2> has{};
    for (const int i : it.sums) {
      const auto layout = sum_layout(shape, equation(i).attrs.get<std::vector<std::int64_t>>("axes"));
      has[layout->kind == SumLayout::Kind::rows ? 0 : 1] = true;
      if (rows.value_or(layout->rows) != layout->rows) return false;
      rows = layout->rows;
    }
    std::int64_t columns = 1;
    for (int d = *rows; d < shape.rank(); ++d) columns *= shape[d];
    if (has[0] && has[1] && columns <= narrow_columns) return false;
    const auto is_whole = [&](Var v) { return spreading(v) == nullptr; };
    return it.sums.size() <= most_sums && std::ranges::any_of(it.reads, is_whole) &&
           std::ranges::all_of(it.reads, [&](Var v) { return is_whole(v) || spreads_whole_rows(v, *rows); });
  }

  /// Whether an operand that is spread has all columns of the matrix or one.
  bool spreads_whole_rows(Var v, int rows) const {
    const Equation& e = *spreading(v);
    const Shape& from = f_.type(e.inputs[0]).shape;
    const Shape& to = f_.type(v).shape;
    const auto dims = e.attrs.get<std::vector<std::int64_t>>("dims");
    std::int64_t columns = 1;
    for (int d = 0; d < from.rank(); ++d) {
      if (dims[static_cast<std::size_t>(d)] >= rows) columns *= from[d];
    }
    std::int64_t all = 1;
    for (int d = rows; d < to.rank(); ++d) all *= to[d];
    return columns == 1 || columns == all;
  }

  /// As a member or as a sum.
  int group_that_holds(int i) {
    const auto it = group_of_sum_.find(i);
    return it == group_of_sum_.end() ? group_of_index(i) : find(it->second);
  }
  int group_of_index(int i) {
    const auto it = group_of_equation_.find(i);
    return it == group_of_equation_.end() ? none : find(it->second);
  }

  /// Equations and groups are written where the first of a group stood, what they read before them.
  FunctionPtr write() {
    Draft draft(f_);
    draft.equations.clear();
    std::vector<bool> is_written(equations().size());
    std::vector<std::pair<int, bool>> open;  // an equation, and whether what it reads has been written
    for (int i = static_cast<int>(equations().size()); i-- > 0;) open.emplace_back(i, false);
    while (!open.empty()) {
      const auto [i, is_ready] = open.back();
      open.pop_back();
      if (is_written[static_cast<std::size_t>(i)]) continue;
      const int g = group_that_holds(i);
      const bool grouped = g != none && group(g).is_chosen;
      const std::vector<int> members = grouped ? with_sums(group(g)) : std::vector<int>{i};
      if (is_ready) {
        draft.equations.push_back(grouped ? fused(g) : equation(i));
        for (const int m : members) is_written[static_cast<std::size_t>(m)] = true;
        continue;
      }
      open.emplace_back(i, true);
      for (const int m : members) {
        for (const Var v : equation(m).inputs) {
          const int definition = definition_[v.id];
          const bool inside = definition >= 0 && std::ranges::count(members, definition) != 0;
          if (definition >= 0 && !inside && !is_written[static_cast<std::size_t>(definition)]) {
            open.emplace_back(definition, false);
          }
        }
      }
    }
    return draft.finish();
  }

  static std::vector<int> with_sums(const Group& it) {
    std::vector<int> all = it.members;
    all.insert(all.end(), it.sums.begin(), it.sums.end());
    return all;
  }

  Equation fused(int g) {
    ir::Builder builder(f_.axes());
    std::map<Var, Var> inside;
    Equation result{&ops::primitives::fused(), {}, {}, {}, equation(group(g).members[0]).provenance};
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
      if (const Equation* full = constant(v); full != nullptr) {
        const Attrs attrs = full->attrs.with("shape", f_.type(v).shape.to_vector());
        return inside[v] = builder.pvary(builder.apply(*full->primitive, {}, attrs)[0], f_.type(v).varying);
      }
      if (const Equation* spread = spreading(v); spread != nullptr) {
        return inside[v] = builder.apply(*spread->primitive, {input(spread->inputs[0])}, spread->attrs)[0];
      }
      return input(v);
    };
    std::vector<Var> outputs;
    for (const int i : with_sums(group(g))) {
      const Equation& e = equation(i);
      std::vector<Var> operands;
      for (const Var v : e.inputs) operands.push_back(operand(v));
      builder.set_provenance(e.provenance);
      inside[e.outputs[0]] = builder.apply(*e.primitive, operands, e.attrs)[0];
      if (!is_given_[e.outputs[0].id]) continue;
      outputs.push_back(inside[e.outputs[0]]);
      result.outputs.push_back(e.outputs[0]);
    }
    result.attrs = {{"body", std::shared_ptr<const AttrObject>(builder.finish(std::move(outputs)))}};
    return result;
  }

  const ir::Function& f_;
  std::vector<int> definition_;  // by var: the equation
  std::vector<int> level_;       // by var
  std::vector<Group> groups_;
  std::vector<int> parent_;  // of groups that were joined with others
  std::map<int, int> group_of_equation_;
  std::map<int, int> group_of_sum_;
  std::map<std::uint32_t, int> reader_;    // by var: the group that read it last
  std::vector<std::vector<int>> readers_;  // by var: equations, `none` for the function's result
  std::vector<bool> is_given_;             // by var: read outside of its group
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
