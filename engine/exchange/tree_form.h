#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/tree.h>

namespace lockstep::exchange {

/// A tree's structure as JSON: null, "leaf", {"fixed": value}, {"list": [...]} or {"dict": {...}}.
std::string tree_form(const Tree& tree);
/// The tree of that structure over `leaves`. Throws DataError, naming `file`, for what is no such structure, or one of
/// another number of leaves.
Tree tree_of_form(std::string_view form, std::vector<Array> leaves, const std::string& file);
/// How many leaves such a structure has. Throws likewise.
std::size_t leaves_of_form(std::string_view form, const std::string& file);

}  // namespace lockstep::exchange
