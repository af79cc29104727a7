#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/compile/program.h"

// What every stage of `lower` may rely on.
namespace lockstep::compile {
namespace {

class Verifier {
 public:
  Verifier(const Program& program, std::string_view behind) : program_(program), behind_(behind) {}

  void run() const {
    check_values();
    check_items();
    if (!program_.units.empty()) check_units();
    if (!program_.steps.empty()) check_steps();
    if (!program_.placements.empty()) check_places();
  }

 private:
  template <class... Parts>
  void expect(bool holds, fmt::format_string<Parts...> text, Parts&&... parts) const {
    if (holds) return;
    throw IrError(fmt::format("lowering, behind {}: {}", behind_, fmt::format(text, std::forward<Parts>(parts)...)));
  }

  bool is_value(int v) const { return v >= 0 && v < static_cast<int>(program_.values.size()); }
  bool is_root(int v) const { return is_value(v) && program_.root(v) == v; }

  void check_values() const {
    for (int v = 0; v < static_cast<int>(program_.values.size()); ++v) {
      const StoredValue& value = program_.value(v);
      expect(is_root(value.root), "value {} lies in {}, which lies in another one", v, value.root);
      expect(value.cut < static_cast<int>(program_.cuts.size()), "value {} is cut by offsets that are not there", v);
      expect(value.offset >= 0, "value {} begins before its root", v);
    }
    for (const int v : program_.arguments) expect(is_value(v), "argument {} is no value", v);
    for (const int v : program_.outputs) expect(is_value(v), "result {} is no value", v);
  }

  /// Each is defined once, and before it is read; where one item computes others, it stands where the first of them stood.
  void check_items() const {
    std::set<int> defined(program_.arguments.begin(), program_.arguments.end());
    for (int v = 0; v < static_cast<int>(program_.values.size()); ++v) {
      if (program_.value(v).memory != Memory::own) defined.insert(v);
    }
    const bool is_in_order = std::ranges::none_of(program_.items, &Item::joined);
    for (const Item& item : program_.items) {
      for (const int v : item.inputs) {
        expect(is_value(v), "{} reads value {}, which is not there", item.op, v);
        expect(!is_in_order || defined.contains(v) || defined.contains(program_.root(v)),
               "{} reads value {} before it is defined", item.op, v);
      }
      for (const int v : item.outputs) {
        expect(is_value(v), "{} defines value {}, which is not there", item.op, v);
        expect(item.joined || defined.insert(v).second, "value {} is defined twice", v);
      }
      expect(item.product < static_cast<int>(program_.items.size()), "{} sums a product that is not there", item.op);
    }
  }

  /// They read and write roots, each written by one unit but for parts of one kernel and shards' blocks.
  void check_units() const {
    for (std::size_t u = 0; u < program_.units.size(); ++u) {
      const Unit& unit = program_.units[u];
      for (const int v : unit.reads) expect(is_root(v), "unit {} reads {}, which is no root", u, v);
      for (const int v : unit.writes) expect(is_root(v), "unit {} writes {}, which is no root", u, v);
      const std::set<int> reads(unit.reads.begin(), unit.reads.end()), writes(unit.writes.begin(), unit.writes.end());
      for (const UnitCall& call : unit.calls) {
        expect(call.kernel != nullptr, "{} in unit {} has no kernel", call.name, u);
        for (const Ref& ref : call.inputs) {
          const int root = is_value(ref.value) ? program_.root(ref.value) : -1;
          expect(reads.contains(root) || writes.contains(root), "{} reads value {}, which unit {} does not say",
                 call.name, ref.value, u);
        }
        for (const Ref& ref : call.outputs) {
          const int root = is_value(ref.value) ? program_.root(ref.value) : -1;
          expect(writes.contains(root), "{} writes value {}, which unit {} does not say", call.name, ref.value, u);
        }
      }
    }
  }

  /// Every unit stands in one step, behind what it reads.
  void check_steps() const {
    std::vector<int> times(program_.units.size(), 0);
    std::vector<int> written(program_.values.size(), -1);  // by root: the first step in which it is
    for (std::size_t s = 0; s < program_.steps.size(); ++s) {
      expect(!program_.steps[s].units.empty(), "step {} does nothing", s);
      for (const int u : program_.steps[s].units) {
        const Unit& unit = program_.units.at(static_cast<std::size_t>(u));
        expect(++times[static_cast<std::size_t>(u)] == 1, "unit {} stands in two steps", u);
        expect(unit.step == static_cast<int>(s), "unit {} says step {} and stands in {}", u, unit.step, s);
        expect((unit.mesh >= 0 && unit.pmap >= 0) == (program_.steps[s].mesh >= 0) || unit.pmap < 0,
               "unit {} runs for every shard outside of a region", u);
        for (const int v : unit.writes) {
          int& first = written[static_cast<std::size_t>(v)];
          if (first < 0) first = static_cast<int>(s);
        }
      }
    }
    for (std::size_t u = 0; u < program_.units.size(); ++u) {
      expect(times[u] == 1, "unit {} stands in no step", u);
      for (const int v : program_.units[u].reads) {
        const int from = written[static_cast<std::size_t>(v)];
        expect(from <= program_.units[u].step, "unit {} of step {} reads value {}, written in step {}", u,
               program_.units[u].step, v, from);
      }
    }
  }

  /// Each lies within its block, on the boundary of its elements.
  void check_places() const {
    std::set<int> written;
    for (const Unit& unit : program_.units) written.insert(unit.writes.begin(), unit.writes.end());
    const std::size_t sizes[] = {program_.arena_bytes, program_.shard_bytes, program_.scratch_bytes};
    for (int v = 0; v < static_cast<int>(program_.values.size()); ++v) {
      const StoredValue& value = program_.value(v);
      if (!is_root(v) || value.memory != Memory::own || value.nbytes() == 0) continue;
      const Placement& placement = program_.placements.at(static_cast<std::size_t>(v));
      if (placement.base > base::scratch) continue;
      const std::size_t size = placement.per_tile ? 0 : value.nbytes();
      const bool is_used = placement.offset != 0 || written.contains(v);
      expect(!is_used || placement.offset + size <= sizes[placement.base], "value {} reaches {} bytes behind its block",
             v, placement.offset + size - sizes[placement.base]);
      expect(placement.offset % size_of(value.type.dtype) == 0, "value {} lies askew", v);
    }
  }

  const Program& program_;
  std::string_view behind_;
};

}  // namespace

void verify(const Program& program, std::string_view behind) { Verifier(program, behind).run(); }

}  // namespace lockstep::compile
