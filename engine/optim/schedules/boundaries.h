#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/ops.h>
#include <lockstep/schedules.h>

// Of schedules: the steps at which they pass from one piece to the next. Steps are int32, boundaries any number; one that no
// step reaches is none.
namespace lockstep::schedules {

/// Throws ValueError for a NaN; an infinite value may be meant, of a threshold that limits nothing yet.
void check_no_nan(std::string_view schedule, std::string_view argument, double value);
/// Throws ValueError unless boundaries rise from 0 or more.
void check_boundaries(std::string_view schedule, const std::vector<std::int64_t>& boundaries);

/// Throws ValueError unless a line and a cosine have finite ends and 0 <= warmup_steps < decay_steps. `of` is empty or says
/// which one of several it is, `counted` how decay_steps are.
void check_cycle(std::string_view schedule, const CosineCycle& cycle, const std::string& of, std::string_view counted);

/// A step to compute with.
inline Array as_float(const Array& step) { return convert(step, float64); }
/// The boundary, or the largest step where it is beyond.
std::int64_t countable(std::int64_t boundary);
Array is_at_most(const Array& step, std::int64_t boundary);
Array is_before(const Array& step, std::int64_t boundary);

}  // namespace lockstep::schedules
