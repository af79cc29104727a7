#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/ir/function.h"

// Which random keys have been used. A draw and a split use a key up; using it again is an error.
namespace lockstep {

/// One key, wherever it went, and what used it first.
class KeyElement {
 public:
  std::string used_by;  ///< Empty: nothing yet.
};

}  // namespace lockstep

namespace lockstep::trace {

using KeyElements = std::vector<std::shared_ptr<KeyElement>>;

/// Goes through a function as it would run, loop bodies twice, and marks the keys that it uses. `inputs` are the elements
/// of each input (empty for inputs that are no keys, and for arrays of keys too large to follow); the result is those of
/// each output. Throws KeyReuseError, naming both uses, at the first key that is used twice. What transposition emits is
/// left out: it repeats draws on purpose.
std::vector<KeyElements> follow_keys(const ir::Function& function, std::span<const KeyElements> inputs);

/// Elements of an array of keys that nothing is known of.
KeyElements new_keys(const ArrayType& type);

/// Checks a function by itself: all inputs are new keys.
void check_key_reuse(const ir::Function& function);

}  // namespace lockstep::trace
