// Trees made of many paths at once.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/tree.h>

namespace lockstep {

/// Dicts with these trees at their paths, as `with` of each in turn gives them, in time that grows as they do. Throws
/// StateError naming two paths that no tree has both: one of them twice, or one below the other.
LOCKSTEP_API Tree tree_of_paths(std::vector<std::pair<std::string, Tree>> entries);

}  // namespace lockstep
