// Refuses trees of which a checkpoint could not be read back.
#include "engine/checkpoint/restorable.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/files/json_value.h"

namespace lockstep::checkpoint {
namespace {

void check_text(const std::string& path) {
  try {
    static_cast<void>(json::Value(path).to_string());
  } catch (const DataError&) {
    throw CheckpointError(
        "[save] a path of the tree is no UTF-8 text, which the file format asks for; name it otherwise");
  }
  if (path.find('\0') == path.npos) return;
  throw CheckpointError(
      fmt::format("[save] the path '{}' holds NUL, which readers of the file format refuse; name it "
                  "otherwise",
                  path));
}

}  // namespace

bool is_empty_shape_readable(const Shape& shape) {
  std::uint64_t product = 1;
  for (const std::int64_t extent : shape) {
    const auto count = static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1));
    if (count > largest_empty / product) return false;
    product *= count;
  }
  return true;
}

std::vector<std::string> checked_paths(const Tree& tree) {
  std::vector<std::string> paths = tree.paths();
  const std::vector<Array> leaves = tree.leaves();
  for (std::size_t i = 0; i < paths.size(); ++i) {
    check_text(paths[i]);
    if (!leaves[i].has_value()) {
      throw CheckpointError(
          fmt::format("[save] leaf '{}' holds nothing; expected arrays that still have their value", paths[i]));
    }
    const Shape& shape = leaves[i].shape();
    if (shape.size() > 0 || is_empty_shape_readable(shape)) continue;
    throw CheckpointError(
        fmt::format("[save] leaf '{}' is {}, which has no elements and extents whose product is above 2^48; no reader "
                    "takes it: reshape it",
                    paths[i], to_string(leaves[i].type())));
  }
  return paths;
}

}  // namespace lockstep::checkpoint
