#include "engine/compile/program.h"

#include <algorithm>

#include <lockstep/backend/element_loop.h>
#include <lockstep/backend/round_up.h>

#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/primitives.h"

namespace lockstep::compile {

bool is_table(const Program& program, const Item& item) {
  constexpr std::size_t most_bytes = 4096;
  return item.primitive == &ops::primitives::iota() && program.values[item.outputs[0]].nbytes() <= most_bytes;
}

bool has_view(const Item& item) { return item.primitive != nullptr && item.primitive->view; }

ir::View view_of(const Item& item, const Shape& operand, const Strides& strides) {
  return item.primitive->view(item.attrs, operand, strides);
}

std::string label(const Item& item) {
  const ElementLoop* loop = element_loop(item.attrs);
  return loop == nullptr ? item.op : loop->label();
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides{};
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    strides[static_cast<std::size_t>(d)] = step;
    step *= shape[d];
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[static_cast<std::size_t>(d)] != step) return std::ranges::count(shape, 0) != 0;
    step *= shape[d];
  }
  return true;
}

std::int64_t Mesh::coordinate(int shard, std::string_view axis) const {
  std::int64_t rest = shard;
  for (auto it = axes.axes().rbegin(); it != axes.axes().rend(); ++it) {
    if (it->name == axis) return rest % it->size;
    rest /= it->size;
  }
  return 0;
}

std::int64_t Mesh::block(int shard, std::string_view entry) const {
  return ops::collective::block_of_dimension(entry, axes, ops::primitives::pmap().name,
                                             [&](const std::string& axis) { return coordinate(shard, axis); });
}

ops::collective::LocalPart Mesh::part_of(const std::vector<std::string>& layout) const {
  return {layout, axes, first_shard, local_shards};
}

int Program::sharing_devices() const {
  if (meshes.empty()) return options.threads;
  int most = 1;
  for (const Mesh& mesh : meshes) most = std::max(most, mesh.devices);
  return most;
}

std::vector<ArrayType> Program::types(const std::vector<int>& of) const {
  std::vector<ArrayType> types;
  types.reserve(of.size());
  for (const int v : of) types.push_back(type(v));
  return types;
}

}  // namespace lockstep::compile
