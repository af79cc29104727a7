#pragma once

#include <string>
#include <vector>

#include <lockstep/tree.h>

namespace lockstep {

/// Adds the tree's leaves, in order of path.
void append_leaves(const Tree& tree, std::vector<Array>& leaves);

/// Where the structures part, as a sentence; empty where they are equal. `path` leads to both trees.
std::string first_difference(const Tree& a, const Tree& b, const std::string& path = "");

}  // namespace lockstep
