#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/tree.h>

// The checks of control flow's results, which name a component by its path.
namespace lockstep::api {

/// Throws StateError, DtypeError or ShapeError where what the body returns for the carry differs from what it takes.
void check_carry(std::string_view op, const Tree& taken, std::span<const ArrayType> taken_types, const Tree& returned,
                 std::span<const ArrayType> returned_types);

/// Throws the same where a branch's results differ from the first's. `names` says what the two branches are called.
void check_branches(std::string_view op, const std::pair<std::string, std::string>& names, const Tree& first,
                    std::span<const ArrayType> first_types, const Tree& other, std::span<const ArrayType> other_types);

/// The common first extent of the leaves, or `length` where there are none. Throws ShapeError naming a leaf without a
/// first dimension or of another extent, ValueError where there is neither leaf nor length.
std::int64_t loop_length(const Tree& xs, std::span<const ArrayType> types, const std::optional<std::int64_t>& length);

}  // namespace lockstep::api
