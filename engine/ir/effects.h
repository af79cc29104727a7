#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/ir/primitive.h"

// The effects of debug_print and error_if.
namespace lockstep::ir {

/// The text between the "{}" of a format, one piece more than there are of these; "{{" and "}}" are braces. Throws
/// ValueError for any other brace.
std::vector<std::string> format_pieces(std::string_view format);

void print_effect(const Attrs& attrs, std::span<const ReferenceArray> operands);
void check_effect(const Attrs& attrs, std::span<const ReferenceArray> operands);

}  // namespace lockstep::ir
