#pragma once

#include <string>

namespace lockstep::checkpoint {

// The file format keeps this name for itself.
inline const std::string reserved_name = "__metadata__";
// No path begins so: trees escape '~' before a 2.
inline const std::string escaped_name = "~2__metadata__";
inline const std::string single_leaf_name = "~2";  ///< Of a tree that is one leaf, whose path is empty.

/// A leaf's name in the file, and its path again.
inline std::string name_of(const std::string& path) {
  if (path.empty()) return single_leaf_name;
  return path == reserved_name ? escaped_name : path;
}
inline std::string path_of(const std::string& name) {
  if (name == single_leaf_name) return "";
  return name == escaped_name ? reserved_name : name;
}

}  // namespace lockstep::checkpoint
