#pragma once

#include <string_view>

#include <lockstep/losses_classification.h>

namespace lockstep::nn {

/// Throws ValueError for options out of range.
void check_focal(std::string_view of, const FocalOptions& options);

/// left^gamma of what is left beside a probability, in [0, 1], with derivative 0 where left^2 is no normal number.
Array focal_factor(const Array& left, double gamma);

}  // namespace lockstep::nn
