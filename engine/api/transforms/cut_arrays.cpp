#include "engine/api/transforms/cut_arrays.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/api/transforms/bind.h"
#include "engine/api/transforms/mesh_attrs.h"
#include "engine/api/transforms/runtime.h"
#include "engine/eval/blocks.h"
#include "engine/ir/builder.h"
#include "engine/ops/collective/dimension_axes.h"
#include "engine/ops/collective/local_part.h"
#include "engine/ops/primitives.h"
#include "engine/parallel/layout.h"
#include "engine/trace/array_state.h"
#include "engine/trace/trace.h"

namespace lockstep {

namespace api {

Attrs reshard_attrs(const Mesh& mesh, std::vector<std::string> cuts) {
  return mesh_attributes(mesh).with("layout", std::move(cuts));
}

Layout layout_of_cuts(const std::vector<std::string>& cuts) {
  std::vector<DimensionAxes> dimensions;
  for (const std::string& entry : cuts) dimensions.emplace_back(ops::collective::axes_of_dimension(entry));
  return Layout::by_dimension(dimensions);
}

Cuts cuts_of(std::span<const Array> arrays) {
  const auto lies = [](const Array& array) { return array.has_value() && array.state()->cut != nullptr; };
  if (std::ranges::none_of(arrays, lies)) return {};
  Cuts cuts;
  for (const Array& array : arrays) cuts.push_back(lies(array) ? array.state()->cut : nullptr);
  return cuts;
}

ir::FunctionPtr on_cut_arguments(const ir::FunctionPtr& function, const Cuts& cuts) {
  if (cuts.empty()) return function;
  ir::Builder builder;
  std::vector<ir::Var> inputs;
  for (const ir::Var v : function->inputs()) inputs.push_back(builder.input(function->type(v)));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (cuts[i] == nullptr) continue;
    const Attrs attrs = {{"axes", cuts[i]->axes},
                         {"sizes", cuts[i]->sizes},
                         {"devices", cuts[i]->devices},
                         {"layout", cuts[i]->layout},
                         {"given", true}};
    inputs[i] = builder.apply(ops::primitives::reshard(), {&inputs[i], 1}, attrs).front();
  }
  return builder.finish(builder.inline_function(*function, inputs));
}

std::vector<Array> kept_cut(std::span<const Array> operands, const Attrs& map, const Mesh& mesh,
                            const std::vector<std::vector<std::string>>& out) {
  if (tracing::is_open()) {
    std::vector<Array> results = bind(ops::primitives::pmap(), operands, map);
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (!ops::collective::is_cut(out[i])) continue;
      results[i] = bind_one(ops::primitives::reshard(), {results[i]}, reshard_attrs(mesh, out[i]));
    }
    return results;
  }
  ir::Builder builder;
  std::vector<ir::Var> inputs;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    check_concrete(operands[i], [&] { return fmt::format("pmap: operand {}", i); });
    inputs.push_back(builder.input(operands[i].type()));
  }
  std::vector<ir::Var> results = builder.apply(ops::primitives::pmap(), inputs, map);
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!ops::collective::is_cut(out[i])) continue;
    results[i] = builder.apply(ops::primitives::reshard(), {&results[i], 1}, reshard_attrs(mesh, out[i])).front();
  }
  return call(builder.finish(std::move(results)), {operands.begin(), operands.end()});
}

}  // namespace api

namespace {

/// How an array lies that does.
const CutLayout& cut_of(const Array& array, std::string_view op) {
  api::check_concrete(array, [&] { return std::string(op); });
  if (array.state()->cut != nullptr) return *array.state()->cut;
  throw MeshError(fmt::format("{}: {} is whole; expected an array that lies cut, as reshard(x, mesh, layout) gives one",
                              op, to_string(array.type())));
}

/// An array's blocks over a mesh and the processes.
class BlocksOverMesh {
 public:
  BlocksOverMesh(const ArrayType& type, const Mesh& mesh, std::vector<std::string> cuts, std::string_view op)
      : type_{type.dtype, type.shape, {}}, cuts_(std::move(cuts)) {
    std::vector<ir::AxisSizes::Axis> axes;
    for (const MeshAxis& axis : mesh.axes()) axes.push_back({axis.name, axis.size});
    axes_ = ir::AxisSizes(std::move(axes));
    const std::int64_t processes = world()->size();
    const auto devices = static_cast<std::int64_t>(mesh.devices().size());
    if (mesh.shards() % (processes * devices) != 0) {
      throw MeshError(fmt::format(
          "{}: {} process(es) with {} device(s) each do not divide {} shards evenly; give a number of devices that "
          "divides the number of shards, or more shards",
          op, processes, devices, mesh.shards()));
    }
    shards_ = mesh.shards() / processes;
    block_ = parallel::local_shape(type.shape, cuts_, mesh, op);
  }

  const Shape& shape() const { return block_; }
  ops::collective::LocalPart part(int process) const { return {cuts_, axes_, process * shards_, shards_}; }
  ops::collective::LocalPart part() const { return part(world()->rank()); }
  Shape part_shape() const { return part().shape(block_); }

  Shape start(std::int64_t shard) const {
    std::vector<std::int64_t> start = part().block_of(shard);
    for (std::size_t d = 0; d < start.size(); ++d) start[d] *= block_[static_cast<int>(d)];
    return Shape(start);
  }
  /// A shard's block in this process's part.
  eval::Block in_part(std::int64_t shard) const {
    std::vector<std::int64_t> offset;
    for (int d = 0; d < block_.rank(); ++d) offset.push_back(part().place(shard, d) * block_[d]);
    return {part_shape(), block_, Shape(offset), size_of(type_.dtype)};
  }
  int owner(std::int64_t shard) const {
    const std::vector<std::int64_t> block = part().block_of(shard);
    for (int process = 0; process < world()->size(); ++process) {
      for (const std::int64_t other : part(process).distinct_shards()) {
        if (part().block_of(other) == block) return process;
      }
    }
    return world()->rank();
  }

 private:
  ArrayType type_;
  std::vector<std::string> cuts_;
  ir::AxisSizes axes_;
  std::int64_t shards_ = 1;  // of a process
  Shape block_;
};

}  // namespace

bool is_cut(const Array& array) { return array.has_value() && array.state()->cut != nullptr; }

Layout layout_of(const Array& array) {
  return is_cut(array) ? api::layout_of_cuts(array.state()->cut->layout) : replicated;
}

Mesh mesh_of(const Array& array) {
  const CutLayout& cut = cut_of(array, "mesh_of");
  std::vector<MeshAxis> axes;
  for (std::size_t i = 0; i < cut.axes.size(); ++i) axes.push_back({cut.axes[i], cut.sizes[i]});
  std::vector<Device> list;
  for (const std::string& text : cut.devices) {
    for (const Device& device : devices(text)) list.push_back(device);
  }
  return Mesh(std::move(axes), std::move(list));
}

Array gather(const Array& array) {
  if (!array.has_value()) throw ValueError("gather: " + why_empty(array));
  const std::vector<std::string> whole(static_cast<std::size_t>(array.ndim()));
  if (is_cut(array)) {
    return api::bind_one(ops::primitives::reshard(), {array}, api::reshard_attrs(mesh_of(array), whole));
  }
  if (!array.is_traced()) return array;
  const Mesh one({{"whole", 1}}, {Device{}});
  return api::bind_one(ops::primitives::reshard(), {array}, api::reshard_attrs(one, whole));
}

Tree gather(const Tree& tree) {
  return map([](const Array& leaf) { return gather(leaf); }, tree);
}

Array reshard(const Array& array, const Mesh& mesh, const Layout& layout) {
  if (!array.has_value()) throw ValueError("reshard: " + why_empty(array));
  const std::string what = "reshard: " + to_string(array.type());
  std::vector<std::string> cuts = parallel::cuts_per_dimension(layout, mesh, array.ndim(), what);
  parallel::local_shape(array.shape(), cuts, mesh, what);
  return api::bind_one(ops::primitives::reshard(), {array}, api::reshard_attrs(mesh, std::move(cuts)));
}

Tree reshard(const Tree& tree, const Mesh& mesh, const LeafLayouts& layouts) {
  const std::string& op = ops::primitives::reshard().name;
  const std::vector<std::string> paths = tree.paths();
  layouts.check_used(paths, op);
  std::size_t next = 0;
  return map([&](const Array& leaf) { return reshard(leaf, mesh, layouts.of(paths[next++], op)); }, tree);
}

namespace {

/// Memory that lies in another buffer, which others read too.
class PartOfBuffer final : public backend::Buffer {
 public:
  PartOfBuffer(std::shared_ptr<backend::Buffer> whole, std::size_t begin, std::size_t bytes)
      : whole_(std::move(whole)), begin_(begin), bytes_(bytes) {}
  void* data() const override { return static_cast<std::byte*>(whole_->data()) + begin_; }
  std::size_t nbytes() const override { return bytes_; }
  Device device() const override { return whole_->device(); }
  bool writable() const override { return false; }

 private:
  std::shared_ptr<backend::Buffer> whole_;
  std::size_t begin_;
  std::size_t bytes_;
};

/// A block where it lies, where it lies in one piece that kernels can read; else copied.
std::shared_ptr<backend::Buffer> buffer_of_block(const eval::Block& block,
                                                 const std::shared_ptr<backend::Buffer>& whole, std::size_t bytes) {
  const std::optional<std::size_t> begin = eval::begin_of_unbroken(block);
  if (begin && bytes > 0 && *begin % backend::buffer_alignment == 0) {
    return std::make_shared<PartOfBuffer>(whole, *begin, bytes);
  }
  auto copy = api::allocate(bytes);
  eval::cut_block(block, whole->data(), copy->data());
  return copy;
}

}  // namespace

std::vector<ArrayBlock> local_blocks(const Array& array) {
  const CutLayout& cut = cut_of(array, "local_blocks");
  const BlocksOverMesh blocks(array.type(), mesh_of(array), cut.layout, "local_blocks");
  std::vector<ArrayBlock> list;
  for (const std::int64_t shard : blocks.part().distinct_shards()) {
    const ArrayType type{array.dtype(), blocks.shape(), {}};
    auto buffer =
        buffer_of_block(blocks.in_part(shard), array.state()->buffer, static_cast<std::size_t>(type.nbytes()));
    list.push_back({blocks.start(shard), make_array(type, std::move(buffer)), blocks.owner(shard)});
  }
  return list;
}

Array cut_array(const ArrayType& type, const Mesh& mesh, const Layout& layout,
                const std::function<Array(const Shape& start, const Shape& shape)>& block) {
  const std::string what = "cut_array: " + to_string(type);
  std::vector<std::string> cuts = parallel::cuts_per_dimension(layout, mesh, type.shape.rank(), what);
  const BlocksOverMesh blocks(type, mesh, cuts, what);
  const Shape part = blocks.part_shape();
  auto buffer = api::allocate(static_cast<std::size_t>(ArrayType{type.dtype, part, {}}.nbytes()));
  for (const std::int64_t shard : blocks.part().distinct_shards()) {
    const Array values = block(blocks.start(shard), blocks.shape());
    const ArrayType expected{type.dtype, blocks.shape(), {}};
    api::check_concrete(values, [&] { return what; });
    if (values.type() != expected || is_cut(values)) {
      throw ShapeError(fmt::format("{}: the block at {} is {}; expected {}, whole", what,
                                   to_string(blocks.start(shard)), to_string(values.type()), to_string(expected)));
    }
    eval::place_block(blocks.in_part(shard), values.state()->buffer->data(), buffer->data());
  }
  if (parallel::cutting_axes(cuts).empty()) return make_array({type.dtype, type.shape, {}}, std::move(buffer));
  const Attrs attrs = api::reshard_attrs(mesh, cuts);
  return make_array({type.dtype, type.shape, {}}, std::move(buffer),
                    std::make_shared<const CutLayout>(CutLayout{
                        attrs.get<std::vector<std::string>>("axes"), attrs.get<std::vector<std::int64_t>>("sizes"),
                        attrs.get<std::vector<std::string>>("devices"), std::move(cuts), part}));
}

}  // namespace lockstep
