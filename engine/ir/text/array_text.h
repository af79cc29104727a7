#pragma once

#include <string>

#include <lockstep/array.h>

#include "engine/ir/primitive.h"

namespace lockstep::ir {

/// The elements in nested brackets, as numpy prints them; a key as its two words.
std::string array_text(const ReferenceArray& array, const PrintOptions& options);

}  // namespace lockstep::ir
