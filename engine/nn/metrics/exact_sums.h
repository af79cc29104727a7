// Sums of weighted products that lose nothing where they are added up, for variances that are differences of such sums.
#pragma once

#include <cstdint>

#include <lockstep/array.h>

namespace lockstep::nn {

/// A float64 number as the sum of two, of which the second is at most half a unit in the last place of the first.
struct TwoDoubles {
  Array high, low;
};

/// a * b of float64 numbers without a rounding, where neither it nor its error over- or underflows. Dekker 1971.
TwoDoubles exact_product(const Array& a, const Array& b);
TwoDoubles operator+(const TwoDoubles& a, const TwoDoubles& b);
TwoDoubles operator-(const TwoDoubles& a, const TwoDoubles& b);
TwoDoubles operator*(const TwoDoubles& a, const TwoDoubles& b);

/// How many float64 numbers hold one sum.
inline constexpr std::int64_t parts_of_sum = 3;
/// Sums of x over dimension 0 as [3, ...]: of each element's first 24 bits, of the next 29, and of the rest. Such sums are
/// added up part by part: over shards, processes and batches.
Array exact_sum(const TwoDoubles& x);
/// The sum that the three parts stand for.
TwoDoubles sum_of_parts(const Array& parts);

}  // namespace lockstep::nn
