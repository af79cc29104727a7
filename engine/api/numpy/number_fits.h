// Whether a dtype holds the numbers of a range.
#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/types.h>

namespace lockstep::api {

/// Throws ValueError naming `op` for one of the numbers that it makes which an integer dtype does not hold.
void check_number_fits(std::string_view op, std::int64_t number, DType dtype);

}  // namespace lockstep::api
