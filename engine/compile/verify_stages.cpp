#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/compile/stages.h"

// What every stage of `lower` may rely on. What a stage has decided has a check of its own, which takes what the stages
// before it decided for granted.
namespace lockstep::compile {
namespace {

/// Throws IrError where something does not hold, and says behind which stage.
class Expect {
 public:
  explicit Expect(std::string_view behind) : behind_(behind) {}

  template <class... Parts>
  void operator()(bool holds, fmt::format_string<Parts...> text, Parts&&... parts) const {
    if (holds) return;
    throw IrError(fmt::format("lowering, behind {}: {}", behind_, fmt::format(text, std::forward<Parts>(parts)...)));
  }

 private:
  std::string_view behind_;
};

// ---- items ---------------------------------------------------------------------------------------------------------

void check_lists(const Program& program, const Expect& expect) {
  for (const int v : program.arguments) expect(program.values.has(v), "argument {} is no value", v);
  for (const int v : program.outputs) expect(program.values.has(v), "result {} is no value", v);
  for (const auto& fence : program.fences) {
    for (const int v : fence) expect(program.values.has(v), "a fence waits for {}, which is no value", v);
  }
}

/// Each value is defined once, and before it is read.
void check_items(const Program& program, const Expect& expect) {
  std::set<int> defined(program.arguments.begin(), program.arguments.end());
  for (const Item& item : program.items) {
    for (const int v : item.inputs) {
      expect(program.values.has(v), "{} reads value {}, which is not there", item.op, v);
      expect(defined.contains(v), "{} reads value {} before it is defined", item.op, v);
    }
    for (const int v : item.outputs) {
      expect(program.values.has(v), "{} defines value {}, which is not there", item.op, v);
      expect(defined.insert(v).second, "value {} is defined twice", v);
    }
    expect(item.mesh < program.meshes.size() && item.pmap < program.meshes.size(), "{} stands in no map", item.op);
    expect(item.fence < program.fences.size(), "{} waits for a fence that is not there", item.op);
  }
}

// ---- units ---------------------------------------------------------------------------------------------------------

bool is_root(const UnitProgram& units, int v) { return units.values.has(v) && units.root(v) == v; }

void check_values(const UnitProgram& units, const Expect& expect) {
  for (int v = 0; v < units.values.size(); ++v) {
    const StoredValue& value = units.values[v];
    expect(is_root(units, value.root), "value {} lies in {}, which lies in another one", v, value.root);
    expect(value.cut < units.cuts.size(), "value {} is cut by offsets that are not there", v);
    expect(value.offset >= 0, "value {} begins before its root", v);
  }
  for (const int v : units.outputs) expect(units.values.has(v), "result {} is no value", v);
}

/// They read and write roots, and say which.
void check_unit(const UnitProgram& units, int u, const Expect& expect) {
  const Unit& unit = units.units[u];
  for (const int v : unit.reads) expect(is_root(units, v), "unit {} reads {}, which is no root", u, v);
  for (const int v : unit.writes) expect(is_root(units, v), "unit {} writes {}, which is no root", u, v);
  const std::set<int> reads(unit.reads.begin(), unit.reads.end()), writes(unit.writes.begin(), unit.writes.end());
  const auto root_of = [&](const Ref& ref) { return units.values.has(ref.value) ? units.root(ref.value) : -1; };
  for (const UnitCall& call : unit.calls) {
    expect(call.kernel != nullptr, "{} in unit {} has no kernel", call.name, u);
    for (const Ref& ref : call.inputs) {
      const int root = root_of(ref);
      expect(reads.contains(root) || writes.contains(root), "{} reads value {}, which unit {} does not say", call.name,
             ref.value, u);
    }
    for (const Ref& ref : call.outputs) {
      expect(writes.contains(root_of(ref)), "{} writes value {}, which unit {} does not say", call.name, ref.value, u);
    }
  }
}

// ---- places: found from who reads and writes what and when, not from the live ranges that the plan was made of -------

/// Bytes of a block that a root lies in, or the kernels of one unit.
struct Occupied {
  int root = -1;  ///< -1: kernels' scratch.
  std::uint32_t base = 0;
  UnitTime domain;  ///< scratch: that of the units which use it, who share it with no others
  std::size_t first = 0;
  std::size_t last = 0;  ///< One behind.
  std::vector<int> writers;
  std::vector<int> users;  ///< Writers and readers.
};

class PlaceVerifier {
 public:
  PlaceVerifier(const Program& program, const UnitProgram& units, const Schedule& schedule,
                const Placements& placements, const Expect& expect)
      : program_(program),
        units_(units),
        schedule_(schedule),
        placements_(placements),
        expect_(expect),
        writers_(units.values.size()),
        users_(units.values.size()) {}

  void run() {
    for (int u = 0; u < units_.units.size(); ++u) {
      const Unit& unit = units_.units[u];
      for (const int r : unit.writes) writers_[r].push_back(u);
      for (const int r : unit.writes) users_[r].push_back(u);
      for (const int r : unit.reads) users_[r].push_back(u);
    }
    collect_roots();
    collect_scratch();
    check_overlaps();
  }

 private:
  const UnitTime& time(int u) const { return schedule_.time[u]; }
  /// Whether it is known only when a unit runs which device it runs on.
  bool may_move(int u) const {
    const int map = units_.units[u].behind_shards;
    return map >= 0 && program_.meshes[map].devices > 1;
  }

  void collect_roots() {
    const auto size = [&](std::uint32_t base) {
      if (base == base::window) return units_.window_bytes;
      return std::array{placements_.arena_bytes, placements_.shard_bytes, placements_.scratch_bytes}.at(base);
    };
    for (int v = 0; v < units_.values.size(); ++v) {
      const StoredValue& value = units_.values[v];
      const Placement& placement = placements_.of_value[v];
      const bool is_planned =
          (placement.base <= base::scratch || placement.base == base::window) && !writers_[v].empty();
      if (units_.root(v) != v || value.memory != Memory::own || value.nbytes() == 0 || !is_planned) continue;
      const std::size_t element = size_of(value.type.dtype);
      const std::size_t bytes =
          placement.per_tile ? std::min<std::size_t>(value.nbytes(), tile_elements * element) : value.nbytes();
      Occupied it{v, placement.base, {}, placement.offset, placement.offset + bytes, writers_[v], users_[v]};
      expect_(it.last <= size(placement.base), "value {} reaches {} bytes behind its block", v,
              it.last - size(placement.base));
      expect_(it.first % element == 0, "value {} lies askew", v);
      if (placement.base == base::scratch) {
        it.domain = time(it.writers[0]);
        for (const int u : it.users) {
          const bool is_elsewhere = time(u) != it.domain || (u != it.writers[0] && may_move(it.writers[0]));
          expect_(!is_elsewhere, "value {} lies in scratch, and unit {} uses it elsewhere", v, u);
        }
      }
      occupied_.push_back(std::move(it));
    }
  }

  void collect_scratch() {
    for (int u = 0; u < units_.units.size(); ++u) {
      const std::size_t bytes = kernel_scratch(units_.units[u]);
      if (bytes == 0) continue;
      const std::size_t first = placements_.scratch[u];
      expect_(first + bytes <= placements_.scratch_bytes, "the kernels of unit {} reach {} bytes behind their block", u,
              first + bytes - placements_.scratch_bytes);
      occupied_.push_back({-1, base::scratch, time(u), first, first + bytes, {u}, {u}});
    }
  }

  /// In each block, what begins before another one's end.
  void check_overlaps() {
    const auto block = [](const Occupied& it) { return std::tuple(it.base, it.domain.step, it.domain.group); };
    std::ranges::stable_sort(occupied_, [&](const Occupied& a, const Occupied& b) {
      return std::tuple(block(a), a.first) < std::tuple(block(b), b.first);
    });
    for (std::size_t i = 0; i < occupied_.size(); ++i) {
      const Occupied& a = occupied_[i];
      for (std::size_t j = i + 1; j < occupied_.size(); ++j) {
        const Occupied& b = occupied_[j];
        if (block(a) != block(b) || b.first >= a.last) break;
        expect_(is_over(a, b) || is_over(b, a), "{} and {} share bytes of memory while both are wanted", name(a),
                name(b));
      }
    }
  }

  static std::string name(const Occupied& it) {
    return it.root < 0 ? fmt::format("the kernels of unit {}", it.users[0]) : fmt::format("value {}", it.root);
  }

  /// Whether nobody uses `a` any more when `b` is written.
  bool is_over(const Occupied& a, const Occupied& b) const {
    const bool same_place = a.first == b.first && a.last == b.last;
    return std::ranges::all_of(b.writers, [&](int writer) {
      return std::ranges::all_of(a.users, [&](int user) {
        if (user == writer) return same_place && is_written_over(units_.units[writer], a.root, b.root);
        return time(user).step < time(writer).step || is_before(user, writer, a.base, same_place);
      });
    });
  }

  /// Whether within a step one unit is done with its memory before another one begins: on one device, in order; what
  /// others share only where each shard or tile finds its own part in the same place.
  bool is_before(int user, int writer, std::uint32_t base, bool same_place) const {
    if (time(user) != time(writer) || user > writer) return false;
    const Unit& unit = units_.units[user];
    if (unit.pmap >= 0) return base != base::arena;
    // The last shard alone has come so far: of the others it reads what lies in their blocks.
    if (unit.behind_shards >= 0) return base == base::scratch;
    return base == base::scratch || unit.tiled == 0 || same_place;
  }

  /// Whether each call that writes `to` may do so while it reads `from` there, and no other call of the unit uses that.
  bool is_written_over(const Unit& unit, int from, int to) const {
    if (from < 0 || to < 0 || (unit.calls.size() > 1 && !unit.in_parts)) return false;
    if (std::ranges::count(unit.writes, from) != 0) return false;
    return std::ranges::all_of(unit.calls, [&](const UnitCall& call) {
      for (int out = 0; const Ref& output : call.outputs) {
        for (int in = 0; const Ref& input : call.inputs) {
          const bool shared = units_.root(output.value) == to && units_.root(input.value) == from;
          if (shared && !call.kernel->may_share(in, out)) return false;
          ++in;
        }
        ++out;
      }
      return true;
    });
  }

  const Program& program_;
  const UnitProgram& units_;
  const Schedule& schedule_;
  const Placements& placements_;
  const Expect& expect_;
  IdVector<std::vector<int>> writers_;  // by root: units
  IdVector<std::vector<int>> users_;
  std::vector<Occupied> occupied_;
};

}  // namespace

void verify(const Program& program, std::string_view behind) {
  const Expect expect(behind);
  check_lists(program, expect);
  check_items(program, expect);
}

void verify(const Program& program, const KernelChoices& choices, std::string_view behind) {
  const Expect expect(behind);
  expect(choices.size() == program.items.size(), "{} choices for {} items", choices.size(), program.items.size());
  for (int i = 0; i < choices.size(); ++i) {
    const Item& item = program.items[i];
    const KernelChoice& choice = choices[i];
    const bool needs_kernel = !choice.is_view && item.kind != Item::Kind::assemble && !is_collective(item);
    expect((choice.kernel != nullptr) == needs_kernel, "{} ({}) {}", item.op, i,
           needs_kernel ? "has no kernel" : "has a kernel that it does not need");
    expect(choice.tiled == 0 || item.pmap < 0, "{} is cut into tiles, and runs for every shard", item.op);
    const std::int64_t rest = choice.tiled % tile_elements;
    expect((choice.rest_kernel != nullptr) == (rest > 0), "{} has {} elements in its last tile, and {} kernel for them",
           item.op, rest, choice.rest_kernel == nullptr ? "no" : "a");
  }
}

void verify(const Program& program, const GroupedItems& grouped, std::string_view behind) {
  const Expect expect(behind);
  expect(grouped.size() == program.items.size(), "{} of {} items", grouped.size(), program.items.size());
  IdVector<int> sums(grouped.size(), 0);  // by product
  for (int i = 0; i < grouped.size(); ++i) {
    const GroupedItem& it = grouped[i];
    const std::string& op = program.items[i].op;
    expect(it.product < grouped.size(), "{} sums a product that is not there", op);
    expect(it.window < program.values.size(), "{} reads a window that is not there", op);
    expect((it.kernel != nullptr) == (it.product >= 0 || it.window >= 0),
           "{} has a kernel for several shards of nothing", op);
    if (it.product >= 0) ++sums[it.product];
  }
  for (int i = 0; i < grouped.size(); ++i) {
    expect(sums[i] == (grouped[i].is_in_sum ? 1 : 0), "{} stands in {} sums of products", program.items[i].op, sums[i]);
  }
}

void verify(const Program& program, const Epilogues& epilogues, std::string_view behind) {
  const Expect expect(behind);
  expect(epilogues.of_item.size() == program.items.size(), "{} of {} items", epilogues.of_item.size(),
         program.items.size());
  IdVector<int> made_of(epilogues.fused.size(), 0);
  IdVector<std::set<int>> given(epilogues.fused.size());
  for (int i = 0; i < program.items.size(); ++i) {
    const int f = epilogues.of_item[i];
    expect(f < epilogues.fused.size(), "{} is computed by an item that is not there", program.items[i].op);
    if (f < 0) continue;
    ++made_of[f];
    given[f].insert(program.items[i].outputs.begin(), program.items[i].outputs.end());
  }
  for (int f = 0; f < epilogues.fused.size(); ++f) {
    const FusedItem& it = epilogues.fused[f];
    expect(made_of[f] == 2, "{} is made of {} items", it.item.op, made_of[f]);
    expect(it.kernel != nullptr, "{} has no kernel", it.item.op);
    expect(program.items.has(it.at) && epilogues.of_item[it.at] == f, "{} stands where none of its items does",
           it.item.op);
    for (const int v : it.item.outputs) {
      expect(given[f].contains(v), "{} gives value {}, which none of its items does", it.item.op, v);
    }
  }
}

void verify(const Program& program, const UnitProgram& units, std::string_view behind) {
  const Expect expect(behind);
  expect(units.values.size() >= program.values.size(), "{} of {} values are stored", units.values.size(),
         program.values.size());
  check_values(units, expect);
  for (int u = 0; u < units.units.size(); ++u) check_unit(units, u, expect);
}

void verify(const UnitProgram& units, const Schedule& schedule, std::string_view behind) {
  const Expect expect(behind);
  IdVector<int> times(units.units.size(), 0);
  IdVector<int> written(units.values.size(), -1);  // by root: the first step in which it is
  for (int s = 0; s < schedule.steps.size(); ++s) {
    const StepUnits& step = schedule.steps[s];
    expect(!step.units.empty(), "step {} does nothing", s);
    for (const int u : step.units) {
      expect(units.units.has(u), "step {} runs unit {}, which is not there", s, u);
      const Unit& unit = units.units[u];
      expect(++times[u] == 1, "unit {} stands in two steps", u);
      expect(schedule.time[u].step == s, "unit {} says step {} and stands in {}", u, schedule.time[u].step, s);
      expect(unit.region() == step.mesh, "unit {} stands in a region of map {}, its step in one of {}", u,
             unit.region(), step.mesh);
      for (const int v : unit.writes) {
        if (written[v] < 0) written[v] = s;
      }
    }
  }
  for (int u = 0; u < units.units.size(); ++u) {
    expect(times[u] == 1, "unit {} stands in no step", u);
    for (const int v : units.units[u].reads) {
      expect(written[v] <= schedule.time[u].step, "unit {} of step {} reads value {}, written in step {}", u,
             schedule.time[u].step, v, written[v]);
    }
  }
}

void verify(const Program& program, const UnitProgram& units, const Schedule& schedule, const Placements& placements,
            std::string_view behind) {
  const Expect expect(behind);
  expect(placements.of_value.size() == units.values.size(), "{} of {} values have places", placements.of_value.size(),
         units.values.size());
  PlaceVerifier(program, units, schedule, placements, expect).run();
}

}  // namespace lockstep::compile
