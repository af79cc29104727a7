#include "engine/partition/layouts.h"

#include "engine/ops/collective/dimension_axes.h"

namespace lockstep::partition {

namespace collective = ops::collective;

ValueLayout whole(int rank) { return {std::vector<CutAxes>(static_cast<std::size_t>(rank)), {}}; }

std::string to_string(const ValueLayout& layout) {
  std::string text = "[";
  for (std::size_t d = 0; d < layout.cuts.size(); ++d) {
    if (d > 0) text += ", ";
    if (layout.cuts[d].empty()) text += "-";
    for (std::size_t i = 0; i < layout.cuts[d].size(); ++i) text += (i > 0 ? "+" : "") + layout.cuts[d][i];
  }
  text += "]";
  if (!layout.sums.empty()) text += " summed over " + lockstep::to_string(layout.sums);
  return text;
}

std::int64_t blocks(const CutAxes& axes, const ir::AxisSizes& mesh) {
  std::int64_t count = 1;
  for (const std::string& axis : axes) count *= mesh.size(axis, "layout");
  return count;
}

Shape block_shape(const Shape& shape, const ValueLayout& layout, const ir::AxisSizes& mesh) {
  Shape block = shape;
  for (int d = 0; d < shape.rank(); ++d) {
    block = block.with(d, shape[d] / blocks(layout.cuts[static_cast<std::size_t>(d)], mesh));
  }
  return block;
}

ArrayType block_type(const ArrayType& type, const ValueLayout& layout, const ir::AxisSizes& mesh) {
  return {type.dtype, block_shape(type.shape, layout, mesh), layout.cutting().joined(layout.sums)};
}

CutAxes common_prefix(const CutAxes& a, const CutAxes& b) {
  CutAxes prefix;
  for (std::size_t i = 0; i < a.size() && i < b.size() && a[i] == b[i]; ++i) prefix.push_back(a[i]);
  return prefix;
}

std::vector<std::string> entries_of(const ValueLayout& layout) {
  std::vector<std::string> entries;
  for (const CutAxes& axes : layout.cuts) entries.push_back(collective::entry_of(axes));
  return entries;
}

ValueLayout layout_of(const std::vector<std::string>& entries, const ir::AxisSizes& mesh) {
  ValueLayout layout;
  for (const std::string& entry : entries) {
    CutAxes axes;
    for (const std::string& axis : collective::axes_of_dimension(entry)) {
      if (mesh.size(axis, "layout") > 1) axes.push_back(axis);
    }
    layout.cuts.push_back(std::move(axes));
  }
  return layout;
}

}  // namespace lockstep::partition
