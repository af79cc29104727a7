#include "engine/ops/collective/dimension_axes.h"

#include <algorithm>

#include "engine/core/checked_sizes.h"
#include "engine/core/join.h"

namespace lockstep::ops::collective {

std::vector<std::string> axes_of_dimension(std::string_view entry) {
  std::vector<std::string> axes;
  if (entry.empty()) return axes;
  for (std::size_t end = entry.find(between_axes); end != std::string_view::npos; end = entry.find(between_axes)) {
    axes.emplace_back(entry.substr(0, end));
    entry.remove_prefix(end + 1);
  }
  axes.emplace_back(entry);
  return axes;
}

std::string entry_of(const std::vector<std::string>& axes) { return join(axes, std::string(1, between_axes)); }

std::vector<std::string> axes_of_layout(const std::vector<std::string>& layout) {
  std::vector<std::string> axes;
  for (const std::string& entry : layout) {
    for (std::string& axis : axes_of_dimension(entry)) axes.push_back(std::move(axis));
  }
  return axes;
}

bool is_cut(const std::vector<std::string>& layout) {
  return std::ranges::any_of(layout, [](const std::string& entry) { return !entry.empty(); });
}

std::int64_t blocks_of_dimension(std::string_view entry, const ir::AxisSizes& mesh, std::string_view op) {
  std::int64_t blocks = 1;
  for (const std::string& axis : axes_of_dimension(entry)) {
    blocks = checked_product(blocks, mesh.size(axis, op), std::string(op));
  }
  return blocks;
}

}  // namespace lockstep::ops::collective
