#pragma once

#include <string_view>
#include <vector>

#include "engine/compile/make_units.h"

namespace lockstep::compile {

/// When a unit runs.
struct UnitTime {
  int step = -1;
  int group = -1;  ///< Units of one step with one group run in order, on one device but for what runs once in a
                   ///< region: a chain, a component, a region.

  bool operator==(const UnitTime&) const = default;
};

struct StepUnits {
  std::vector<int> units;
  int mesh = -1;  ///< >= 0: a region of that pmap.
};

struct Schedule {
  IdVector<UnitTime> time;  ///< By unit.
  IdVector<StepUnits> steps;
  int devices = 1;
};

Schedule schedule(const Program& program, const UnitProgram& units);

/// Units in no step or in two, operands read in an earlier step than written in.
void verify(const UnitProgram& units, const Schedule& schedule, std::string_view behind);

}  // namespace lockstep::compile
