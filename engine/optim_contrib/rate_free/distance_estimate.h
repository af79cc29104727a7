#pragma once

#include <string_view>

#include <lockstep/optim.h>

// What rules have in common that estimate the distance to the solution by Adam's averages (prodigy, dadapt_adamw).
namespace lockstep::optim {

/// Adam's averages and {"sum": weighted gradients, "estimate", "numerator"}. Throws DtypeError for complex parameters.
Tree first_distance_estimate(std::string_view rule, const Tree& params, double first_estimate);

/// The estimate times the rate behind `before` steps and Adam's corrections of the averages of the next one.
Array corrected_step(const LearningRate& rate, const Array& before, double b1, double b2, const Array& estimate);

}  // namespace lockstep::optim
