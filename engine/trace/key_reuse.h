#pragma once

#include <span>
#include <vector>

#include "engine/ir/key_elements.h"

namespace lockstep::tracing {

using ir::KeyElements;

/// Goes through a function as it would run, loop bodies twice, and marks the keys that it uses. `inputs` are the elements
/// of each input (empty for inputs that are no keys, and for arrays of keys too large to follow); the result is those of
/// each output. Throws KeyReuseError, naming both uses, at the first key that is used twice. What transposition emits is
/// left out: it repeats draws on purpose.
std::vector<KeyElements> follow_keys(const ir::Function& function, std::span<const KeyElements> inputs);

/// Checks a function by itself: all inputs are new keys.
void check_key_reuse(const ir::Function& function);

}  // namespace lockstep::tracing
