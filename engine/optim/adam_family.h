#pragma once

#include <utility>

#include <lockstep/export.h>
#include <lockstep/optim.h>

namespace lockstep::optim {

/// b1, b2 and epsilon of `function` are in range, or a ValueError says which is not.
LOCKSTEP_API void check_moments(std::string_view function, double b1, double b2, double epsilon);
/// {"count", "mu", "nu"}.
Tree moments_state(const Array& count, Tree mu, Tree nu);
/// The same before the first update, nu real.
LOCKSTEP_API Tree first_moments(const Tree& params);
/// Nesterov's average of averages m: b1 m / (1 - b1^(t+1)) + (1 - b1) g / (1 - b1^t), t being `count`.
Tree looking_ahead(double b1, const Array& count, const Tree& mu, const Tree& gradients);
/// rule, the decay that the rate multiplies where there is one, the rate.
LOCKSTEP_API GradientTransformation with_decay(GradientTransformation rule, double weight_decay, LearningRate rate);

}  // namespace lockstep::optim
