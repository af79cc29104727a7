#include "engine/passes/element_groups.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/backend/element_loop.h>

#include "engine/core/lists.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"

namespace lockstep::passes {

using ir::Equation;
using ir::Var;

namespace {

// What a kernel can be expected to take.
constexpr std::size_t most_members = 64;
constexpr std::size_t most_reads = 28;
constexpr std::size_t most_sums = 8;
/// Work outside of maps is cut into tiles, so that all devices share it, with sums over all elements, whose tiles' sums
/// are joined; other sums are not. Arrays from that size on are rather cut.
constexpr std::int64_t most_summed_outside = 1 << 16;

bool is_cut_outside(const ArrayType& type) { return type.varying.empty() && type.size() >= most_summed_outside; }

bool is_sum(const ir::Function& f, const Equation& e) {
  if (!ir::is_loop_sum(e.primitive, e.attrs)) return false;
  const ArrayType& type = f.type(e.inputs[0]);
  return e.primitive->traits.in_loops(type.dtype, f.type(e.outputs[0]).dtype) &&
         (!is_cut_outside(type) || f.type(e.outputs[0]).size() == 1) &&
         backend::sum_as_matrix(type.shape, e.attrs.get<std::vector<std::int64_t>>("axes")).has_value();
}

bool is_element_op(const ir::Function& f, const Equation& e) {
  const ir::LoopRule in_loops = e.primitive->traits.in_loops;
  if (!e.primitive->traits.pointwise || in_loops == nullptr || e.outputs.size() != 1 || e.inputs.empty()) return false;
  const ArrayType& result = f.type(e.outputs[0]);
  return std::ranges::all_of(
      e.inputs, [&](Var v) { return f.type(v).shape == result.shape && in_loops(f.type(v).dtype, result.dtype); });
}

}  // namespace

std::vector<int> ElementGroup::computed() const {
  std::vector<int> all = members;
  all.insert(all.end(), copies.begin(), copies.end());
  std::ranges::sort(all);
  all.insert(all.end(), sums.begin(), sums.end());
  return all;
}

ElementGroups::ElementGroups(const ir::Function& function)
    : f_(function), chains_(function), level_(f_.types().size(), 0) {
  for (std::size_t i = 0; i < equations().size(); ++i) visit(static_cast<int>(i));
  raise_groups();
  group_neighbours();
  join_later_neighbours();
  raise_groups();
  sink();
  take_sums();
}

// ---- values

bool ElementGroups::spreads(const Equation& e) const {
  return e.primitive == &ops::primitives::broadcast_in_dim() &&
         f_.type(e.inputs[0]).shape != f_.type(e.outputs[0]).shape;
}

const Equation* ElementGroups::defined_by(Var v) const {
  const int i = definition(v);
  return i < 0 ? nullptr : &equation(i);
}

const Equation* ElementGroups::constant(Var v) const {
  const Equation* e = defined_by(v);
  while (e != nullptr && ir::moves_one(e->primitive->traits)) e = defined_by(e->inputs[0]);
  return e != nullptr && e->primitive == &ops::primitives::full() ? e : nullptr;
}

const Equation* ElementGroups::spreading(Var v) const {
  const Equation* e = defined_by(v);
  return e != nullptr && spreads(*e) ? e : nullptr;
}

double ElementGroups::bytes(Var v) const {
  const Equation* spread = spreading(v);
  const ArrayType& type = f_.type(spread == nullptr ? v : spread->inputs[0]);
  return static_cast<double>(type.size()) * static_cast<double>(size_of(type.dtype));
}

// ---- groups

int ElementGroups::find(int group) {
  while (parent_[group] != group) {
    int& up = parent_[group];
    up = parent_[up];
    group = up;
  }
  return group;
}

int ElementGroups::group_of(Var v) {
  const int i = definition(v);
  return i < 0 ? none : group_of_index(i);
}

int ElementGroups::group_of_index(int i) {
  const auto it = group_of_equation_.find(i);
  return it == group_of_equation_.end() ? none : find(it->second);
}

int ElementGroups::group_that_holds(int i) {
  const auto it = group_of_sum_.find(i);
  return it == group_of_sum_.end() ? group_of_index(i) : find(it->second);
}

bool ElementGroups::computes(int g, Var v) {
  const int i = definition(v);
  return i >= 0 && (group_that_holds(i) == g || contains(group(g).copies, i));
}

bool ElementGroups::fits(int g, const ArrayType& type) {
  return type_of(g).shape == type.shape && type_of(g).varying == type.varying;
}

bool ElementGroups::fits_in_one(std::size_t members, std::size_t reads) {
  return members <= most_members && reads <= most_reads;
}

void ElementGroups::visit(int i) {
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
  for (const Var v : e.outputs) level_[v.id] = level;
}

/// The level of the group that the equation comes to stand in.
int ElementGroups::add_to_group(int i) {
  ElementGroup own = alone(i);
  own.level = 1;
  for (const Var v : equation(i).inputs) own.level = std::max(own.level, read_level(v) + 1);
  std::vector<int> continued = groups_it_continues(i, own.level - 1);
  if (!continued.empty() && can_be_grouped(continued, own)) {
    --own.level;
  } else {
    continued.clear();
  }
  const int g = new_group(std::move(own));
  for (const int other : continued) take_members(other, g);
  return group(g).level;
}

ElementGroup ElementGroups::alone(int i) const {
  ElementGroup group;
  group.members = {i};
  for (const Var v : equation(i).inputs) {
    if (constant(v) == nullptr && !contains(group.reads, v)) group.reads.push_back(v);
  }
  return group;
}

/// The groups whose values at `level`, the highest one that it reads, are all that it reads there; none where it
/// reads anything else there.
std::vector<int> ElementGroups::groups_it_continues(int i, int level) {
  const ArrayType& type = f_.type(result_of(i));
  std::vector<int> result;
  for (const Var v : equation(i).inputs) {
    if (read_level(v) < level || constant(v) != nullptr) continue;
    const int g = spreading(v) != nullptr ? none : group_of(v);
    if (g == none || !fits(g, type)) return {};
    if (!contains(result, g)) result.push_back(g);
  }
  return result;
}

/// Whether the members of those groups may be members of one, with these.
bool ElementGroups::can_be_grouped(const std::vector<int>& groups, const ElementGroup& own) {
  std::size_t members = own.members.size();
  std::vector<Var> reads = own.reads;
  for (const int g : groups) {
    members += group(g).members.size();
    reads.insert(reads.end(), group(g).reads.begin(), group(g).reads.end());
  }
  std::ranges::sort(reads);
  const auto repeated = std::ranges::unique(reads);
  return fits_in_one(members, static_cast<std::size_t>(repeated.begin() - reads.begin()));
}

int ElementGroups::new_group(ElementGroup made) {
  const int g = count();
  group_of_equation_[made.members[0]] = g;
  groups_.add(std::move(made));
  return parent_.add(g);
}

void ElementGroups::take_members(int from, int into) {
  parent_[from] = into;
  ElementGroup& old = group(from);
  ElementGroup& all = group(into);
  all.members.insert(all.members.end(), old.members.begin(), old.members.end());
  for (const Var v : old.reads) {
    if (!contains(all.reads, v)) all.reads.push_back(v);
  }
  std::erase_if(all.reads, [&](Var v) { return spreading(v) == nullptr && group_of(v) == into; });
  old = {};
}

// ---- equations that stand far from the group that reads them, such as what an optimizer does with its old state

/// Gives members to a higher group that reads them, where nothing else at that level or below does.
void ElementGroups::raise_groups() {
  for (bool changed = true; changed;) {
    changed = false;
    for (int g = 0; g < count(); ++g) {
      if (group(g).members.empty()) continue;
      const std::vector<Var> values = values_of(g);
      const int to = lowest_reader(g, values);
      if (to == none || !fits(to, type_of(g)) || !can_be_grouped({g}, group(to))) continue;
      for (const Var v : values) level_[v.id] = group(to).level;
      take_members(g, to);
      changed = true;
    }
  }
}

/// What members and sums of a group give.
std::vector<Var> ElementGroups::values_of(int g) {
  std::vector<Var> values;
  for (const int i : group(g).members) values.push_back(result_of(i));
  for (const auto& [i, of] : group_of_sum_) {
    if (find(of) == g) values.push_back(result_of(i));
  }
  return values;
}

/// The other group that is alone at the lowest level where these values are read, or none.
int ElementGroups::lowest_reader(int own, const std::vector<Var>& values) {
  int result = none;
  int lowest = std::numeric_limits<int>::max();
  for (const Var v : values) {
    for (const int reader : readers(v)) {
      const int g = reader == none ? own : group_that_holds(reader);
      if (g == own) continue;
      const int level = level_at(reader);
      if (level == lowest && g != result) result = none;
      if (level < lowest) result = g;
      lowest = std::min(level, lowest);
    }
  }
  return result;
}

/// Makes one group of those of one level that read one value. After groups that read one another, which spares more memory:
/// no chain is to be cut because another stands beside it.
void ElementGroups::group_neighbours() {
  std::map<std::uint32_t, int> reader;  // by var: the group that read it last
  for (int g = 0; g < count(); ++g) {
    if (group(g).members.empty()) continue;
    for (const Var v : std::vector<Var>(group(g).reads)) {
      const auto it = reader.find(v.id);
      const int other = it == reader.end() ? g : find(it->second);
      if (other == g || group(other).level != group(g).level || !fits(other, type_of(g))) continue;
      if (can_be_grouped({other}, group(g))) take_members(other, g);
    }
    for (const Var v : group(g).reads) reader[v.id] = g;
  }
}

/// Gives members to a later group that reads all of memory that they read, where nothing waits for them before: an
/// optimizer's norm of the weights goes to the loop that reads the weights anyway. Nothing lives longer then.
void ElementGroups::join_later_neighbours() {
  for (int g = 0; g < count(); ++g) {
    if (group(g).members.empty() || !type_of(g).varying.empty()) continue;
    const std::vector<Var> values = values_of(g);
    const int to = later_neighbour(g, first_read(g, values));
    if (to == none) continue;
    for (const Var v : values) level_[v.id] = group(to).level;
    take_members(g, to);
  }
}

/// The lowest level at which others read these values of group `own`.
int ElementGroups::first_read(int own, const std::vector<Var>& values) {
  int lowest = std::numeric_limits<int>::max();
  for (const Var v : values) {
    for (const int reader : readers(v)) {
      const int g = reader == none ? own : group_that_holds(reader);
      if (g != own) lowest = std::min(lowest, level_at(reader));
    }
  }
  return lowest;
}

int ElementGroups::level_at(int reader) {
  const int g = group_that_holds(reader);
  const std::vector<Var>& given = equation(reader).outputs;
  return g != none ? group(g).level : given.empty() ? 0 : level_[given[0].id];
}

/// The lowest group above `g` and below level `before` with which it can be one, without reading more memory.
int ElementGroups::later_neighbour(int g, int before) {
  int result = none;
  for (const Var read : group(g).reads) {
    if (spreading(read) != nullptr) continue;
    for (const int reader : readers(read)) {
      const int to = reader == none ? none : group_that_holds(reader);
      if (to == none || group(to).level <= group(g).level || group(to).level >= before) continue;
      if (result != none && group(to).level >= group(result).level) continue;
      const bool reads_all = std::ranges::all_of(group(g).reads, [&](Var v) {
        const Equation* spread = spreading(v);
        return contains(group(to).reads, v) || (spread != nullptr && f_.type(spread->inputs[0]).size() == 1);
      });
      if (reads_all && fits(to, type_of(g)) && can_be_grouped({g}, group(to))) result = to;
    }
  }
  return result;
}

/// Moves an equation to the group that alone reads it, where less memory is read and written then.
void ElementGroups::sink() {
  for (int i = static_cast<int>(equations().size()); i-- > 0;) {
    const int own = group_of_index(i);
    if (own == none) continue;
    const int to = only_reader(result_of(i));
    if (to != none && to != own && fits(to, f_.type(result_of(i))) && can_be_grouped({to}, alone(i)) &&
        bytes_spared(i, own, to) > 0) {
      move(i, own, to);
    }
  }
}

/// The group that reads the value; none where there are several, or others do.
int ElementGroups::only_reader(Var v) {
  int result = none;
  for (const int reader : readers(v)) {
    const int g = reader == none ? none : group_that_holds(reader);
    if (g == none || (result != none && g != result)) return none;
    result = g;
  }
  return result;
}

/// By computing the equation in the group `to` rather than in `own`.
double ElementGroups::bytes_spared(int i, int own, int to) {
  double spared = 2 * bytes(result_of(i));
  for (const Var v : alone(i).reads) {
    if (!contains(group(to).reads, v)) spared -= bytes(v);
    const auto is_here = [&](int reader) { return reader != none && group_that_holds(reader) == own; };
    const auto here = std::ranges::count_if(readers(v), is_here);
    if (group_of(v) != own || spreading(v) != nullptr) {
      if (here == 1) spared += bytes(v);
    } else if (here == static_cast<std::ptrdiff_t>(readers(v).size())) {
      spared -= bytes(v);
    }
  }
  return spared;
}

void ElementGroups::move(int i, int own, int to) {
  std::erase(group(own).members, i);
  if (group(own).members.empty()) group(own) = {};
  group(to).members.push_back(i);
  std::erase(group(to).reads, result_of(i));
  for (const Var v : alone(i).reads) {
    if (!contains(group(to).reads, v)) group(to).reads.push_back(v);
  }
  group_of_equation_[i] = to;
}

void ElementGroups::drop(int i) {
  const int own = group_of_index(i);
  std::erase(group(own).members, i);
  group_of_equation_.erase(i);
  dropped_.insert(i);
  for (const Var v : equation(i).inputs) chains_.drop_use(v, i);
  if (group(own).members.empty()) group(own) = {};
}

// ---- sums

void ElementGroups::take_sums() {
  for (auto& [i, g] : group_of_sum_) {
    g = find(g);
    group(g).sums.push_back(i);
  }
  for (ElementGroup& it : groups_) {
    if (sums_fit(it)) continue;
    for (const int i : it.sums) group_of_sum_.erase(i);
    it.sums.clear();
  }
}

bool ElementGroups::sums_fit(const ElementGroup& it) const {
  if (it.sums.empty()) return true;
  const Shape& shape = f_.type(equation(it.sums[0]).inputs[0]).shape;
  std::optional<int> rows;
  std::array<bool, 2> has{};
  for (const int i : it.sums) {
    const auto layout = backend::sum_as_matrix(shape, equation(i).attrs.get<std::vector<std::int64_t>>("axes"));
    has[layout->kind == backend::SumAsMatrix::Kind::rows ? 0 : 1] = true;
    if (rows.value_or(layout->rows) != layout->rows) return false;
    rows = layout->rows;
  }
  std::int64_t columns = 1;
  for (int d = *rows; d < shape.rank(); ++d) columns *= shape[d];
  if (has[0] && has[1] && columns <= backend::narrow_columns) return false;
  const auto is_whole = [&](Var v) { return spreading(v) == nullptr; };
  const bool is_cut = is_cut_outside(f_.type(equation(it.sums[0]).inputs[0]));
  const auto is_one = [&](Var v) { return f_.type(spreading(v)->inputs[0]).size() == 1; };
  if (is_cut && !std::ranges::all_of(it.reads, [&](Var v) { return is_whole(v) || is_one(v); })) return false;
  return it.sums.size() <= most_sums && std::ranges::any_of(it.reads, is_whole) &&
         std::ranges::all_of(it.reads, [&](Var v) { return is_whole(v) || spreads_whole_rows(v, *rows); });
}

/// Whether an operand that is spread has all columns of the matrix or one.
bool ElementGroups::spreads_whole_rows(Var v, int rows) const {
  const Equation& e = *spreading(v);
  const Shape& from = f_.type(e.inputs[0]).shape;
  const Shape& to = f_.type(v).shape;
  const auto dims = e.attrs.get<std::vector<std::int64_t>>("dims");
  std::int64_t columns = 1;
  for (int d = 0; d < from.rank(); ++d) {
    if (nth(dims, d) >= rows) columns *= from[d];
  }
  std::int64_t all = 1;
  for (int d = rows; d < to.rank(); ++d) all *= to[d];
  return columns == 1 || columns == all;
}

}  // namespace lockstep::passes
