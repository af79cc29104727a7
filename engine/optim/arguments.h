#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/export.h>
#include <lockstep/tree.h>

// Checks of what optimizers are given. Each throws a ValueError that says whose argument it is, what was given and what is
// meant.
namespace lockstep::optim {

/// The share of an old average in the new one: in [0, 1).
LOCKSTEP_API void check_share(std::string_view function, std::string_view argument, double value);
void check_finite(std::string_view function, std::string_view argument, double value);
/// Finite, at least 0.
LOCKSTEP_API void check_not_negative(std::string_view function, std::string_view argument, double value);
/// Finite, above 0.
LOCKSTEP_API void check_positive(std::string_view function, std::string_view argument, double value);
/// At least `least`.
LOCKSTEP_API void check_count(std::string_view function, std::string_view argument, std::int64_t value,
                              std::int64_t least = 1);
/// Throws DtypeError unless it is one random key.
LOCKSTEP_API void check_key(std::string_view function, const Array& key);
/// Throws DtypeError naming the first complex leaf.
LOCKSTEP_API void check_real(std::string_view function, const Tree& params);

}  // namespace lockstep::optim
