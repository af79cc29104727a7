#pragma once

#include <cstdint>

namespace lockstep {

/// A node of the tree: `side` tells siblings apart, the root has level 0. What siblings' subtrees hold at one level is
/// never needed at the same time, so a buffer for each level and side is enough.
struct TreeNode {
  std::int64_t level = 0;
  int side = 0;
};

/// Pairwise summation (Higham, Accuracy and Stability of Numerical Algorithms, 4.2), halves first:
/// S(a, b) = leaf(a) if b = a + 1, else combine(S(a, m), S(m, b)), m = (a + b) / 2. The one order in which anything is
/// folded over shards and processes. At least one leaf. `leaf(i, node)`, `combine(left, right, node)`; `node` is where the
/// root stands in a larger tree.
template <class T, class Leaf, class Combine>
T fold_tree(std::int64_t first, std::int64_t last, const Leaf& leaf, const Combine& combine, TreeNode node = {}) {
  if (last == first + 1) return leaf(first, node);
  const std::int64_t middle = (first + last) / 2;
  const T left = fold_tree<T>(first, middle, leaf, combine, TreeNode{node.level + 1, 0});
  const T right = fold_tree<T>(middle, last, leaf, combine, TreeNode{node.level + 1, 1});
  return combine(left, right, node);
}

}  // namespace lockstep
