#pragma once

#include <string>
#include <vector>

#include <lockstep/lockstep.h>

// Our transformations and schedules under the names of Optax' in trajectories.txt.
namespace lockstep::tests::optax {

struct Case {
  std::string name;
  std::vector<std::string> functions;  ///< The public functions that it holds, as a user calls them.
  optim::GradientTransformation transformation;
  bool nans = false;  ///< The third and fourth gradient have a NaN.
  bool takes_complex = true;
  bool of_valley = false;  ///< Gradients and losses are those of `valley` where the parameters are.
};
const std::vector<Case>& cases();

/// A narrow curved valley over all parameters: a loss that line searches need several places of.
Array valley(const Tree& params);

/// Parts of `cases`, in a file each.
std::vector<Case> rate_free_cases();
std::vector<Case> second_order_cases();

struct ScheduleCase {
  std::string name;
  std::vector<std::string> functions;
  Schedule schedule;
};
const std::vector<ScheduleCase>& schedule_cases();

}  // namespace lockstep::tests::optax
