#include <algorithm>
#include <numeric>
#include <set>
#include <utility>
#include <vector>

#include "engine/core/lists.h"
#include "engine/ir/primitive.h"
#include "engine/ops/primitives.h"
#include "engine/passes/element_groups.h"

namespace lockstep::passes {
namespace {

using ir::Var;

// Rematerialisation (Briggs, Cooper, Torczon 1992): a value is computed again where that takes less than memory does.

/// Steps of a loop that are worth a byte of memory read or written.
constexpr double steps_per_byte = 5;

/// What computing a value again in a group that reads it takes.
struct Again {
  int group = none;
  std::vector<int> copies;
  std::vector<Var> reads;  ///< That the group did not read before.
};

class Recomputer {
 public:
  explicit Recomputer(ElementGroups& groups) : groups_(groups), reading_(groups.function().types().size()) {}

  void run() {
    for (int g = 0; g < groups_.count(); ++g) {
      for (const Var v : groups_.group(g).reads) reading_[v.id].insert(g);
    }
    // The highest first: what they read of lower groups is known then.
    std::vector<int> order = repeated<int>(groups_.count());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, [&](int a, int b) { return groups_.group(a).level > groups_.group(b).level; });
    for (const int g : order) visit(g);
  }

 private:
  void visit(int g) {
    std::vector<int> members = groups_.group(g).members;
    std::ranges::sort(members, std::greater());
    for (const int i : members) {
      if (!groups_.is_dropped(i)) visit_value(g, groups_.result_of(i));
    }
  }

  void visit_value(int g, Var v) {
    std::vector<Again> possible;
    double spared = stays(v) ? 0 : groups_.bytes(v);
    double steps = 0;
    const std::set<int> readers = reading_[v.id];
    for (const int h : readers) {
      Again again = compute_again(g, h, v);
      if (!is_possible(again, v)) continue;
      spared += bytes_spared(again, v);
      steps += steps_of(again);
      possible.push_back(std::move(again));
    }
    // Where no group reads it any more, it need not be written either.
    const bool by_all = possible.size() == readers.size() && pays(v, spared, steps);
    for (const Again& again : possible) {
      if (by_all || pays(v, bytes_spared(again, v), steps_of(again))) apply(again, v);
    }
    drop_unread(g, v);
  }

  /// Whether the value is needed in memory whatever other groups do.
  bool stays(Var v) {
    return std::ranges::any_of(groups_.readers(v),
                               [&](int reader) { return reader == none || groups_.group_that_holds(reader) == none; });
  }

  Again compute_again(int g, int h, Var v) {
    Again again{h, {}, {}};
    std::vector<int> open = {groups_.definition(v)};
    while (!open.empty()) {
      const int i = open.back();
      open.pop_back();
      if (std::ranges::count(again.copies, i) != 0) continue;
      again.copies.push_back(i);
      for (const Var w : groups_.equation(i).inputs) {
        if (groups_.constant(w) != nullptr || std::ranges::count(groups_.group(h).reads, w) != 0) continue;
        const bool is_spread = groups_.spreading(w) != nullptr;
        if (!is_spread && groups_.computes(h, w)) continue;
        if (!is_spread && groups_.computes(g, w)) {
          open.push_back(groups_.definition(w));
        } else if (std::ranges::count(again.reads, w) == 0) {
          again.reads.push_back(w);
        }
      }
    }
    return again;
  }

  bool is_possible(const Again& again, Var v) {
    ElementGroup after = groups_.group(again.group);
    if (after.members.empty() || !groups_.fits(again.group, groups_.function().type(v))) return false;
    std::erase(after.reads, v);
    after.reads.insert(after.reads.end(), again.reads.begin(), again.reads.end());
    std::size_t arrays = after.reads.size() + after.sums.size();
    for (const int i : after.members) {
      const Var result = groups_.result_of(i);
      arrays += !reading_[result.id].empty() || stays(result) ? 1 : 0;
    }
    const std::size_t equations = after.members.size() + after.copies.size() + again.copies.size();
    return arrays <= most_arrays && ElementGroups::fits_in_one(equations, after.reads.size()) &&
           groups_.sums_fit(after);
  }

  double bytes_spared(const Again& again, Var v) const {
    double spared = groups_.bytes(v);
    for (const Var w : again.reads) spared -= groups_.bytes(w);
    return spared;
  }

  double steps_of(const Again& again) const {
    double steps = 0;
    for (const int i : again.copies) {
      const DType result = groups_.function().type(groups_.result_of(i)).dtype;
      steps += passes::steps_of(*groups_.equation(i).primitive, result);
    }
    return steps;
  }

  bool pays(Var v, double spared, double steps) const {
    const auto elements = static_cast<double>(groups_.function().type(v).size());
    return spared > 0 && steps * elements <= steps_per_byte * spared;
  }

  void apply(const Again& again, Var v) {
    ElementGroup& h = groups_.group(again.group);
    h.copies.insert(h.copies.end(), again.copies.begin(), again.copies.end());
    std::erase(h.reads, v);
    reading_[v.id].erase(again.group);
    for (const Var w : again.reads) {
      h.reads.push_back(w);
      reading_[w.id].insert(again.group);
    }
  }

  /// Takes a value that nothing reads any more out of its group, and what was there for it alone.
  void drop_unread(int g, Var v) {
    const int i = groups_.definition(v);
    const auto is_here = [&](int reader) { return reader != none && groups_.group_that_holds(reader) == g; };
    if (!reading_[v.id].empty() || stays(v) || std::ranges::any_of(groups_.readers(v), is_here)) return;
    groups_.drop(i);
    for (const Var w : groups_.equation(i).inputs) {
      const int before = groups_.spreading(w) != nullptr ? none : groups_.definition(w);
      if (before != none && groups_.group_that_holds(before) == g) {
        drop_unread(g, w);
      } else if (std::ranges::none_of(groups_.readers(w), is_here)) {
        std::erase(groups_.group(g).reads, w);
        reading_[w.id].erase(g);
      }
    }
  }

  ElementGroups& groups_;
  std::vector<std::set<int>> reading_;  // by var: the groups that read it
};

}  // namespace

double steps_of(const ir::Primitive& op, DType result) {
  const bool rounds = &op == &ops::primitives::convert() && result == DType::bfloat16;  // by integer arithmetic
  return rounds ? 8 : op.traits.steps;
}

void recompute(ElementGroups& groups) { Recomputer(groups).run(); }

}  // namespace lockstep::passes
