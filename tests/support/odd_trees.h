#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <string>

#include <lockstep/array.h>
#include <lockstep/tree.h>

namespace lockstep::tests {

/// A dict of at least one leaf, at most three deep, whose keys are made of what paths and files read in their own way.
inline Tree random_tree(std::uint64_t seed) {
  std::mt19937_64 draw(seed);
  const auto below = [&](std::uint64_t n) { return draw() % n; };
  const auto key = [&] {
    static const char* const parts[] = {"/", "~", "0", "1", "2", "a", "__metadata__", "\"", "\\", "\xC3\xA4"};
    std::string text;
    for (std::uint64_t n = below(4); n > 0; --n) text += parts[below(std::size(parts))];
    return text;
  };
  int leaf = 0;
  const auto make = [&](const auto& self, int depth) -> Tree {
    if (depth == 0 || (depth < 3 && below(2) == 0)) return Tree(array(leaf++));
    std::map<std::string, Tree> items;
    for (std::uint64_t n = 1 + below(4); n > 0; --n) items.emplace(key(), self(self, depth - 1));
    return Tree::dict(std::move(items));
  };
  return make(make, 3);
}

}  // namespace lockstep::tests
