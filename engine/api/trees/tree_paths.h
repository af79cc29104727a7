#pragma once

#include <optional>
#include <string>
#include <vector>

#include <lockstep/tree.h>

namespace lockstep {

/// Adds the tree's leaves, in order of path.
void append_leaves(const Tree& tree, std::vector<Array>& leaves);

/// The first place where two structures part, and what stands there in each: "a leaf", "a list of 2 items", "3", "missing".
struct Difference {
  std::string path;
  std::string a;
  std::string b;
};
std::optional<Difference> first_difference(const Tree& a, const Tree& b, const std::string& path = "");

}  // namespace lockstep
