#pragma once

#include <vector>

#include <lockstep/lockstep.h>

// Rows of numbers, and the mean of what a loss or a metric gives for them.
namespace lockstep::tests {

using Values = std::vector<double>;

inline double mean_of(const Weighted& w) { return value(w).item<double>(); }

}  // namespace lockstep::tests
