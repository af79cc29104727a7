#include "engine/compile/program.h"

#include <algorithm>

#include <lockstep/backend/element_loop.h>

#include "engine/core/round_up.h"
#include "engine/ops/primitives.h"

namespace lockstep::compile {

bool is_table(const Program& program, const Item& item) {
  constexpr std::size_t most_bytes = 4096;
  return item.primitive == &ops::primitives::iota() && program.value(item.outputs[0]).nbytes() <= most_bytes;
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

bool StoredValue::is_contiguous() const {
  std::int64_t step = 1;
  for (int d = type.shape.rank() - 1; d >= 0; --d) {
    if (type.shape[d] != 1 && strides[static_cast<std::size_t>(d)] != step) return type.size() == 0;
    step *= type.shape[d];
  }
  return true;
}

bool StoredValue::is_uniform() const {
  for (int d = 0; d < type.shape.rank(); ++d) {
    if (type.shape[d] != 1 && strides[static_cast<std::size_t>(d)] != 0) return false;
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

int Program::sharing_devices() const {
  if (meshes.empty()) return options.threads;
  int most = 1;
  for (const Mesh& mesh : meshes) most = std::max(most, mesh.devices);
  return most;
}

std::vector<ArrayType> Program::types(std::span<const Ref> refs) const {
  std::vector<ArrayType> types;
  for (const Ref& ref : refs) types.push_back(value(ref.value).type);
  return types;
}

int Program::new_value(const ArrayType& type, int pmap) {
  StoredValue value;
  value.type = type;
  value.pmap = pmap;
  value.root = static_cast<int>(values.size());
  value.strides = contiguous_strides(type.shape);
  values.push_back(std::move(value));
  return static_cast<int>(values.size()) - 1;
}

int Program::new_view(int of, const ArrayType& type, const Strides& strides, std::int64_t offset_bytes, int pmap) {
  const int id = new_value(type, pmap);
  StoredValue& view = value(id);
  view.root = root(of);
  view.cut = value(of).cut;
  view.offset = value(of).offset + offset_bytes;
  view.strides = strides;
  return id;
}

std::size_t Program::new_constant(std::span<const std::byte> bytes) {
  constexpr std::size_t granule = 16;
  const std::size_t offset = round_up(constants.size(), granule);
  constants.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), constants.begin() + static_cast<std::ptrdiff_t>(offset));
  return offset;
}

std::vector<std::uint64_t> cut_offsets(const Mesh& mesh, const Item& item, const Shape& local, const Strides& strides,
                                       DType dtype) {
  const std::vector<std::string>& layout = item.layout;
  std::vector<std::uint64_t> offsets;
  for (int s = 0; s < mesh.local_shards; ++s) {
    if (item.stacked >= 0) {
      offsets.push_back(static_cast<std::uint64_t>(s * item.stacked));
      continue;
    }
    std::int64_t elements = 0;
    for (std::size_t d = 0; d < layout.size(); ++d) {
      if (layout[d].empty()) continue;
      elements += mesh.coordinate(mesh.first_shard + s, layout[d]) * local[static_cast<int>(d)] * strides[d];
    }
    offsets.push_back(static_cast<std::uint64_t>(elements) * size_of(dtype));
  }
  return offsets;
}

}  // namespace lockstep::compile
