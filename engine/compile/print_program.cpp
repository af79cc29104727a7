#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/compile/stages.h"

// A program between two stages, for tests and for people.
namespace lockstep::compile {
namespace {

std::string value_name(int v) { return fmt::format("v{}", v); }

std::string names(const std::vector<int>& values) {
  std::vector<std::string> texts;
  for (const int v : values) texts.push_back(value_name(v));
  return fmt::format("{}", fmt::join(texts, " "));
}

std::string names(const std::vector<Ref>& refs) {
  std::vector<std::string> texts;
  for (const Ref& ref : refs)
    texts.push_back(value_name(ref.value) + (ref.shard < 0 ? "" : fmt::format("@{}", ref.shard)));
  return fmt::format("{}", fmt::join(texts, " "));
}

/// " [a, b]", nothing of nothing.
std::string notes(const std::vector<std::string>& of) {
  return of.empty() ? "" : fmt::format(" [{}]", fmt::join(of, ", "));
}

std::string kind_of(const Item& item) {
  switch (item.kind) {
    case Item::Kind::cut_in:
      return "cut_in";
    case Item::Kind::assemble:
      return "assemble";
    case Item::Kind::pick:
      return "pick";
    default:
      return label(item);
  }
}

/// What the stages have decided of one item.
std::vector<std::string> notes_of(const Item& item, int i, const Decided& decided) {
  std::vector<std::string> of;
  if (item.pmap >= 0) of.push_back(fmt::format("per shard of {}", item.pmap));
  if (decided.choices && (*decided.choices)[i].is_view) of.emplace_back("alias");
  if (decided.choices && (*decided.choices)[i].tiled > 0) {
    of.push_back(fmt::format("tiled {}", (*decided.choices)[i].tiled));
  }
  const GroupedItem grouped = decided.grouped ? (*decided.grouped)[i] : GroupedItem{};
  const bool is_in_epilogue = decided.epilogues && decided.epilogues->of_item[i] >= 0 && !decided.epilogues->at(i);
  if (grouped.is_in_sum || is_in_epilogue) of.emplace_back("computed by another");
  if (grouped.product >= 0) of.push_back(fmt::format("product {}", grouped.product));
  if (grouped.window >= 0) of.push_back(fmt::format("of all shards, window {}", value_name(grouped.window)));
  if (item.together) of.emplace_back("together");
  return of;
}

std::string item_line(const Program& program, int i, const Decided& decided) {
  const FusedItem* fused = decided.epilogues ? decided.epilogues->at(i) : nullptr;
  const Item& item = fused == nullptr ? program.items[i] : fused->item;
  return fmt::format("  {} = {} {}{}\n", names(item.outputs), kind_of(item), names(item.inputs),
                     notes(notes_of(item, i, decided)));
}

std::string view_line(const UnitProgram& units, int v) {
  const StoredValue& value = units.values[v];
  std::vector<std::string> of;
  if (value.offset != 0) of.push_back(fmt::format("{} bytes on", value.offset));
  if (value.cut >= 0) of.push_back(fmt::format("cut {}", value.cut));
  if (!value.is_contiguous()) {
    of.push_back(fmt::format("strides {}",
                             fmt::join(value.strides.begin(), value.strides.begin() + value.type.shape.rank(), " ")));
  }
  return fmt::format("  {} {} in {}{}\n", value_name(v), to_string(value.type), value_name(value.root), notes(of));
}

std::string unit_line(const UnitProgram& units, int u, const Decided& decided) {
  const Unit& unit = units.units[u];
  std::vector<std::string> calls, of;
  for (const UnitCall& call : unit.calls) {
    calls.push_back(fmt::format("{} {} -> {}", call.name, names(call.inputs), names(call.outputs)));
  }
  if (unit.pmap >= 0) of.push_back(fmt::format("per shard of {}", unit.pmap));
  if (unit.behind_shards >= 0) of.push_back(fmt::format("behind the shards of {}", unit.behind_shards));
  if (unit.tiled > 0) of.push_back(fmt::format("tiled {}", unit.tiled));
  if (unit.on_caller) of.emplace_back("on the caller");
  if (unit.together) of.emplace_back("together");
  if (unit.in_parts) of.emplace_back("in parts");
  if (!unit.collectives.empty()) of.push_back(fmt::format("collectives {}", unit.collectives.size()));
  if (decided.schedule) of.push_back(fmt::format("group {}", decided.schedule->time[u].group));
  return fmt::format("  u{}: {}{}\n", u, fmt::join(calls, "; "), notes(of));
}

std::string place_name(const Placement& placement) {
  constexpr const char* bases[] = {"arena", "shard", "scratch", "constants", "all shards", "window"};
  const std::string base = placement.base < base::first_argument
                               ? bases[placement.base]
                               : fmt::format("argument or result {}", placement.base - base::first_argument);
  return fmt::format("{}+{}{}", base, placement.offset, placement.per_tile ? " a tile" : "");
}

std::string print_units(const UnitProgram& units, const Decided& decided) {
  std::string text;
  for (int v = 0; v < units.values.size(); ++v) {
    if (units.root(v) != v) text += view_line(units, v);
  }
  text += "units\n";
  for (int u = 0; u < units.units.size(); ++u) text += unit_line(units, u, decided);
  return text;
}

std::string print_schedule(const Schedule& schedule) {
  std::string text = "steps\n";
  for (int s = 0; s < schedule.steps.size(); ++s) {
    const StepUnits& step = schedule.steps[s];
    text += fmt::format("  {}: {} u{}\n", s, step.mesh < 0 ? "once" : "every shard", fmt::join(step.units, " u"));
  }
  return text;
}

std::string print_places(const UnitProgram& units, const Placements& placements) {
  std::string text = fmt::format("places: arena {}, shard {}, scratch {}\n", placements.arena_bytes,
                                 placements.shard_bytes, placements.scratch_bytes);
  for (int v = 0; v < units.values.size(); ++v) {
    const StoredValue& value = units.values[v];
    if (value.root != v || value.nbytes() == 0) continue;
    text += fmt::format("  {} {} {}\n", value_name(v), to_string(value.type), place_name(placements.of_value[v]));
  }
  return text;
}

}  // namespace

std::string print(const Program& program, const Decided& decided) {
  const IdVector<int>& outputs = decided.units ? decided.units->outputs : program.outputs;
  std::string text = fmt::format("arguments {}\nresults {}\n", names(program.arguments.list()), names(outputs.list()));
  text += "items\n";
  for (int i = 0; i < program.items.size(); ++i) text += item_line(program, i, decided);
  text += "views\n";
  if (decided.units) text += print_units(*decided.units, decided);
  if (decided.schedule) text += print_schedule(*decided.schedule);
  if (decided.placements) text += print_places(*decided.units, *decided.placements);
  return text;
}

}  // namespace lockstep::compile
