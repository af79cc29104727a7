#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/ir/sub_function_rules.h"

// Which random keys have been used. A draw and a split use a key up; using it again is an error.
namespace lockstep {

/// One key, wherever it went, and what used it first.
class KeyElement {
 public:
  std::string used_by;  ///< Empty: nothing yet.
};

}  // namespace lockstep

namespace lockstep::ir {

/// Larger arrays of keys are not followed.
inline constexpr std::int64_t most_keys = 1 << 16;

/// Elements of an array of keys that nothing is known of.
KeyElements new_keys(const ArrayType& type);
/// One use of all keys of an array; one that is there several times is used once. Throws KeyReuseError naming both uses
/// where one has been used before.
void use_keys(const KeyElements& keys, const std::string& by);
/// What used the first of the keys that has been used, or "".
std::string first_use(const KeyElements& keys);

}  // namespace lockstep::ir
