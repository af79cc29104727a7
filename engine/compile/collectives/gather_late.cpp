#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "engine/compile/make_units.h"

// Fully sharded data parallelism (Zhao et al. 2023): what is cut over the processes is whole only while a layer reads it,
// once in the forward pass and once in the backward one.
namespace lockstep::compile {
namespace {

class LateGathers {
 public:
  LateGathers(const Program& program, UnitProgram& units)
      : program_(program), units_(units), readers_(units.values.size()) {}

  void run() {
    if (!is_possible()) return;
    find_readers();
    std::vector<Whole> wholes;
    for (int u = 0; u < units_.units.size(); ++u) {
      if (!is_late(u)) continue;
      wholes.push_back({u, readers_[unit(u).writes[0]]});
      gathered_.insert(unit(u).writes[0]);
    }
    if (wholes.size() < 2) return;
    for (const Whole& whole : wholes) first_reads_.push_back(whole.readers.front());
    std::ranges::sort(first_reads_);
    for (const Whole& whole : wholes) place(whole);
    reorder();
  }

 private:
  /// A gather, and who reads what it gives, in order.
  struct Whole {
    int gather = -1;
    std::vector<int> readers;
  };

  const Unit& unit(int u) const { return units_.units[u]; }

  bool is_possible() const {
    if (program_.processes == 1 || !program_.is_called) return false;
    const auto has_one = [](const Mesh& mesh) { return mesh.local_shards == mesh.devices; };
    return std::ranges::all_of(program_.meshes, has_one) &&
           std::ranges::none_of(units_.units, [](const Unit& it) { return it.behind_shards >= 0; });
  }

  void find_readers() {
    for (int u = 0; u < units_.units.size(); ++u) {
      for (const int root : unit(u).reads) readers_[root].push_back(u);
    }
  }

  /// Whether the unit gathers what is there from the beginning, and somebody reads it.
  bool is_late(int u) const {
    const Unit& it = unit(u);
    if (!it.gathers || it.writes.size() != 1 || readers_[it.writes[0]].empty()) return false;
    const auto is_argument = [&](int root) { return units_.values[root].memory == Memory::argument; };
    const auto is_whole = [&](int output) { return units_.root(output) == it.writes[0]; };
    return std::ranges::all_of(it.reads, is_argument) && std::ranges::none_of(units_.outputs, is_whole);
  }

  /// Whether another gather's result is read for the first time between two readers.
  bool are_apart(int before, int behind) const {
    const auto next = std::ranges::upper_bound(first_reads_, before);
    return next != first_reads_.end() && *next < behind;
  }

  /// One gather in front of each run of readers that stand close together.
  void place(const Whole& whole) {
    const int root = unit(whole.gather).writes[0];
    for (std::size_t first = 0, last = 0; first < whole.readers.size(); first = last) {
      last = first + 1;
      while (last < whole.readers.size() && !are_apart(whole.readers[last - 1], whole.readers[last])) ++last;
      Unit gather = unit(whole.gather);
      gather.waits_for = others_of(whole.readers[first]);
      if (first > 0) {
        const int again = units_.new_value(units_.values[root].type, -1);
        gathered_.insert(again);
        gather.writes = {again};
        gather.calls[0].outputs[0].value = again;
        for (std::size_t i = first; i < last; ++i) read(units_.units[whole.readers[i]], root, again);
      }
      in_front_[whole.readers[first]].push_back(std::move(gather));
    }
    moved_.insert(whole.gather);
  }

  /// What a reader reads or waits for that is not gathered so.
  std::vector<int> others_of(int reader) const {
    std::vector<int> others;
    const auto add = [&](int root) {
      if (units_.values[root].memory == Memory::own && !gathered_.contains(root)) others.push_back(root);
    };
    for (const int root : unit(reader).reads) add(root);
    if (unit(reader).fence >= 0) {
      for (const int v : program_.fences[unit(reader).fence]) add(units_.root(v));
    }
    return others;
  }

  /// Lets the unit read `again`, and views of it, in place of `root`.
  void read(Unit& reader, int root, int again) {
    for (UnitCall& call : reader.calls) {
      for (Ref& ref : call.inputs) {
        if (units_.root(ref.value) != root) continue;
        const StoredValue from = units_.values[ref.value];
        if (ref.value == root) {
          ref.value = again;
          continue;
        }
        ref.value = units_.new_value(from.type, from.pmap);
        units_.values[ref.value] = from;
        units_.values[ref.value].root = again;
      }
    }
    std::ranges::replace(reader.reads, root, again);
  }

  void reorder() {
    IdVector<Unit> ordered;
    for (int u = 0; u < units_.units.size(); ++u) {
      if (const auto found = in_front_.find(u); found != in_front_.end()) {
        for (Unit& gather : found->second) ordered.add(std::move(gather));
      }
      if (!moved_.contains(u)) ordered.add(std::move(units_.units[u]));
    }
    units_.units = std::move(ordered);
  }

  const Program& program_;
  UnitProgram& units_;
  IdVector<std::vector<int>> readers_;  // by root
  std::vector<int> first_reads_;        // units, in order
  std::map<int, std::vector<Unit>> in_front_;
  std::set<int> moved_;     // units
  std::set<int> gathered_;  // roots
};

}  // namespace

void gather_late(const Program& program, UnitProgram& units) { LateGathers(program, units).run(); }

}  // namespace lockstep::compile
