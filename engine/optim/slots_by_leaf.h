#pragma once

#include <string>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/tree.h>

// Slots that differ from leaf to leaf in number and shape.
namespace lockstep::optim {

/// One tree a leaf, in order of path, at the leaves' paths.
LOCKSTEP_API Tree slots_by_leaf(const Tree& params, const std::vector<Tree>& slots);
/// Those of each leaf of `params`, in order of path.
LOCKSTEP_API std::vector<Tree> slots_of_leaves(const Tree& params, const Tree& slots);

}  // namespace lockstep::optim
