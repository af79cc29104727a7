#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <vector>

#include "engine/core/id_vector.h"
#include "engine/core/lists.h"
#include "engine/ir/def_use.h"
#include "engine/ir/function.h"

// Groups of element-wise equations, their members, each to become one equation. Every equation has a level, above those
// of all that it reads; the members of a group share one. What a group reads lies below it, so no way leads out of a
// group and back into it, and groups of one level may always become one.
namespace lockstep::passes {

/// No group, no equation.
inline constexpr int none = ir::DefUse::nobody;

/// Operands and results that a kernel can be expected to take.
inline constexpr std::size_t most_arrays = 40;

struct ElementGroup {
  int level = 0;
  std::vector<int> members;    ///< Equations.
  std::vector<ir::Var> reads;  ///< What members and copies read, constants left out.
  std::vector<int> copies;     ///< Equations of other groups that are computed here again, for members to read.
  std::vector<int> sums;       ///< Equations that add up what members give.
  bool is_chosen = false;

  /// Members, copies and sums, as they stand in the function.
  std::vector<int> computed() const;
};

/// The groups of a function, which must outlive them.
class ElementGroups {
 public:
  explicit ElementGroups(const ir::Function& function);

  const ir::Function& function() const { return f_; }
  const std::vector<ir::Equation>& equations() const { return f_.equations(); }
  const ir::Equation& equation(int i) const { return nth(equations(), i); }
  ir::Var result_of(int i) const { return equation(i).outputs[0]; }
  /// The equation that defines `v`, or `none`.
  int definition(ir::Var v) const { return chains_.definition(v); }
  /// The `full` that gives all elements of `v` their value, or null.
  const ir::Equation* constant(ir::Var v) const;
  /// The equation that repeats a smaller array along other dimensions, or null.
  const ir::Equation* spreading(ir::Var v) const;
  /// Of the array that lies in memory: the smaller one where it is spread.
  double bytes(ir::Var v) const;
  /// What reads `v`: equations, `none` for the function's result.
  const std::vector<int>& readers(ir::Var v) const { return chains_.uses(v); }

  /// All there ever were; those whose members went over to others have none.
  int count() const { return groups_.size(); }
  ElementGroup& group(int g) { return groups_[g]; }
  /// The group that gives `v`, or `none`.
  int group_of(ir::Var v);
  /// The group in which equation `i` stands, as a member or as a sum.
  int group_that_holds(int i);
  /// Whether `v` is computed in group `g`: by a member, a sum or a copy.
  bool computes(int g, ir::Var v);
  /// Whether arrays of that type go with those of the group.
  bool fits(int g, const ArrayType& type);
  /// Whether a kernel can be expected to take a loop of so many equations and operands.
  static bool fits_in_one(std::size_t members, std::size_t reads);
  /// Whether the sums of `it` can stand in one loop with all that it reads.
  bool sums_fit(const ElementGroup& it) const;
  /// Takes an equation that nothing reads any more out of its group, whose reads stay as they are.
  void drop(int i);
  /// Whether it was dropped: what reads it computes it again.
  bool is_dropped(int i) const { return dropped_.contains(i); }

 private:
  void visit(int i);
  int add_to_group(int i);
  std::vector<int> groups_it_continues(int i, int level);
  bool can_be_grouped(const std::vector<int>& groups, const ElementGroup& own);
  int new_group(ElementGroup made);
  void take_members(int from, int into);
  void raise_groups();
  void group_neighbours();
  std::vector<ir::Var> values_of(int g);
  int lowest_reader(int own, const std::vector<ir::Var>& values);
  int level_at(int reader);
  void join_later_neighbours();
  int first_read(int own, const std::vector<ir::Var>& values);
  int later_neighbour(int g, int before);
  void sink();
  int only_reader(ir::Var v);
  ElementGroup alone(int i) const;
  double bytes_spared(int i, int own, int to);
  void move(int i, int own, int to);
  void take_sums();

  bool spreads(const ir::Equation& e) const;
  bool spreads_whole_rows(ir::Var v, int rows) const;
  const ir::Equation* defined_by(ir::Var v) const;
  int read_level(ir::Var v) const { return constant(v) == nullptr ? level_[v.id] : 0; }
  const ArrayType& type_of(int g) { return f_.type(result_of(group(g).members[0])); }
  int find(int group);
  int group_of_index(int i);

  const ir::Function& f_;
  ir::DefUse chains_;
  std::vector<int> level_;  // by var
  IdVector<ElementGroup> groups_;
  IdVector<int> parent_;  // by group: the one that took its members, or itself
  std::map<int, int> group_of_equation_;
  std::map<int, int> group_of_sum_;
  std::set<int> dropped_;
};

/// Roughly, by how many instructions a loop computes an op.
double steps_of(const ir::Primitive& op, DType result);

/// Has groups compute again what they would read from far away, where less memory is read and written then: from a
/// forward to a backward pass goes what their element-wise values are made of rather than these values.
void recompute(ElementGroups& groups);

}  // namespace lockstep::passes
