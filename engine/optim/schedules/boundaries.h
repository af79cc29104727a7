#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/array.h>

// Of schedules: the steps at which they pass from one piece to the next. Steps are int32, boundaries any number; one that no
// step reaches is none.
namespace lockstep::schedules {

/// Throws ValueError for a NaN; an infinite value may be meant, of a threshold that limits nothing yet.
void check_no_nan(std::string_view schedule, std::string_view argument, double value);
/// Throws ValueError unless boundaries rise from 0 or more.
void check_boundaries(std::string_view schedule, const std::vector<std::int64_t>& boundaries);

/// The boundary, or the largest step where it is beyond.
std::int64_t countable(std::int64_t boundary);
Array is_at_most(const Array& step, std::int64_t boundary);
Array is_before(const Array& step, std::int64_t boundary);

}  // namespace lockstep::schedules
