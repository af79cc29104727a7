#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "engine/compile/choose_views.h"
#include "engine/compile/fuse_epilogues.h"
#include "engine/compile/group_shards.h"
#include "engine/compile/make_units.h"
#include "engine/compile/memory/place_values.h"
#include "engine/compile/program.h"
#include "engine/compile/schedule.h"

namespace lockstep::compile {

/// What the stages behind `write_out` have decided so far. Each is given those of the stages before it.
struct Decided {
  std::optional<KernelChoices> choices;
  std::optional<GroupedItems> grouped;
  std::optional<Epilogues> epilogues;
  std::optional<UnitProgram> units;
  std::optional<Schedule> schedule;
  std::optional<Placements> placements;
};

/// A stage of `lower` between the first and the last.
struct Stage {
  std::string_view name;
  void (*run)(const Program&, Decided&);
  void (*verify)(const Program&, const Decided&, std::string_view behind);
};
/// In order, `fuse_epilogues` where the options ask for it.
std::span<const Stage> stages(const Options& options);

/// The last stage: the planned program as flat lists that a run walks through.
std::shared_ptr<Executable> emit(const Program& program, const UnitProgram& units, const Schedule& schedule,
                                 const Placements& placements);

/// What the program is by now, as text: items, and once they are decided what lies in others, units, steps, places.
std::string print(const Program& program, const Decided& decided = {});

}  // namespace lockstep::compile
