#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/compile/program.h"

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

std::string item_line(const Item& item) {
  std::vector<std::string> of;
  if (item.pmap >= 0) of.push_back(fmt::format("per shard of {}", item.pmap));
  if (item.alias) of.emplace_back("alias");
  if (item.tiled > 0) of.push_back(fmt::format("tiled {}", item.tiled));
  if (item.joined) of.emplace_back("joined");
  if (item.product >= 0) of.push_back(fmt::format("product {}", item.product));
  if (item.of_shards != nullptr) of.emplace_back("of all shards");
  if (item.together) of.emplace_back("together");
  return fmt::format("  {} = {} {}{}\n", names(item.outputs), kind_of(item), names(item.inputs), notes(of));
}

std::string view_line(const Program& program, int v) {
  const StoredValue& value = program.value(v);
  std::vector<std::string> of;
  if (value.offset != 0) of.push_back(fmt::format("{} bytes on", value.offset));
  if (value.cut >= 0) of.push_back(fmt::format("cut {}", value.cut));
  if (!value.is_contiguous()) {
    of.push_back(fmt::format("strides {}",
                             fmt::join(value.strides.begin(), value.strides.begin() + value.type.shape.rank(), " ")));
  }
  return fmt::format("  {} {} in {}{}\n", value_name(v), to_string(value.type), value_name(value.root), notes(of));
}

std::string unit_line(const Unit& unit, std::size_t number) {
  std::vector<std::string> calls, of;
  for (const UnitCall& call : unit.calls) {
    calls.push_back(fmt::format("{} {} -> {}", call.name, names(call.inputs), names(call.outputs)));
  }
  if (unit.pmap >= 0) of.push_back(fmt::format("per shard of {}", unit.pmap));
  if (unit.tiled > 0) of.push_back(fmt::format("tiled {}", unit.tiled));
  if (unit.on_caller) of.emplace_back("on the caller");
  if (unit.together) of.emplace_back("together");
  if (unit.in_parts) of.emplace_back("in parts");
  if (unit.collectives > 0) of.push_back(fmt::format("collectives {}", unit.collectives));
  if (unit.step >= 0) of.push_back(fmt::format("group {}", unit.group));
  return fmt::format("  u{}: {}{}\n", number, fmt::join(calls, "; "), notes(of));
}

std::string place_name(const Placement& placement) {
  constexpr const char* bases[] = {"arena", "shard", "scratch", "constants", "all shards"};
  const std::string base = placement.base < base::first_argument
                               ? bases[placement.base]
                               : fmt::format("argument or result {}", placement.base - base::first_argument);
  return fmt::format("{}+{}{}", base, placement.offset, placement.per_tile ? " a tile" : "");
}

}  // namespace

std::string print(const Program& program) {
  std::string text = fmt::format("arguments {}\nresults {}\n", names(program.arguments), names(program.outputs));
  text += "items\n";
  for (const Item& item : program.items) text += item_line(item);
  text += "views\n";
  for (int v = 0; v < static_cast<int>(program.values.size()); ++v) {
    if (program.root(v) != v) text += view_line(program, v);
  }
  if (program.units.empty()) return text;
  text += "units\n";
  for (std::size_t u = 0; u < program.units.size(); ++u) text += unit_line(program.units[u], u);
  if (program.steps.empty()) return text;
  text += "steps\n";
  for (std::size_t s = 0; s < program.steps.size(); ++s) {
    const Program::StepPlan& step = program.steps[s];
    text += fmt::format("  {}: {} u{}\n", s, step.mesh < 0 ? "once" : "every shard", fmt::join(step.units, " u"));
  }
  if (program.placements.empty()) return text;
  text += fmt::format("places: arena {}, shard {}, scratch {}\n", program.arena_bytes, program.shard_bytes,
                      program.scratch_bytes);
  for (int v = 0; v < static_cast<int>(program.values.size()); ++v) {
    if (program.root(v) != v || program.value(v).nbytes() == 0) continue;
    text += fmt::format("  {} {} {}\n", value_name(v), to_string(program.value(v).type),
                        place_name(program.placements[static_cast<std::size_t>(v)]));
  }
  return text;
}

}  // namespace lockstep::compile
