#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/types.h>

namespace lockstep {

/// How an array lies cut over a mesh, and what of it this process has.
struct CutLayout {
  std::vector<std::string> axes;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> devices;
  std::vector<std::string> layout;  ///< By dimension, as ops/collective/dimension_axes.h says.
  Shape part;                       ///< Of this process's blocks together, as one array.

  /// Whether what lies the one way lies the other way, too: the devices do not matter.
  bool lies_like(const CutLayout& other) const {
    return axes == other.axes && sizes == other.sizes && layout == other.layout;
  }
  bool operator==(const CutLayout&) const = default;
};

/// Whether both are null or equal.
inline bool same_cut(const std::shared_ptr<const CutLayout>& a, const std::shared_ptr<const CutLayout>& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

}  // namespace lockstep
