#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <lockstep/backend/element_loop.h>
#include <lockstep/error.h>

#include "engine/compile/program.h"
#include "engine/core/round_up.h"
#include "engine/executable/copy_kernel.h"
#include "engine/executable/pairwise_sum_kernel.h"
#include "engine/ops/primitives.h"

namespace lockstep::compile {
namespace {

using Dims = std::vector<std::int64_t>;

/// What an item without operands gives, computed by its kernel while the function is lowered.
int constant_value(Program& program, const Item& item, const ArrayType& type, const Attrs& attrs) {
  const Kernel* kernel = program.kernels.get(item.op, attrs, {}, {&type, 1});
  std::vector<std::byte> bytes(static_cast<std::size_t>(type.nbytes()) + 64), scratch(kernel->scratch_bytes());
  void* aligned = bytes.data();
  std::size_t room = bytes.size();
  std::align(64, static_cast<std::size_t>(type.nbytes()), aligned, room);
  const ArrayView view = contiguous_view(aligned, type.dtype, type.shape);
  kernel->run({{}, {&view, 1}, scratch.data()});
  const int id = program.new_value(type, -1);
  program.value(id).memory = Memory::constant;
  program.value(id).index = static_cast<int>(
      program.new_constant({static_cast<const std::byte*>(aligned), static_cast<std::size_t>(type.nbytes())}));
  return id;
}

/// The coordinates along an axis, read by each shard at its own.
void alias_axis_index(Program& program, const Item& item) {
  const Mesh& mesh = program.meshes[static_cast<std::size_t>(item.mesh)];
  const auto& axis = item.attrs.get<std::string>("axis");
  std::vector<std::int32_t> coordinates;
  for (std::int64_t i = 0; i < mesh.axes.size(axis, item.op); ++i) {
    coordinates.push_back(static_cast<std::int32_t>(i));
  }
  const ArrayType type{DType::int32, Shape{static_cast<std::int64_t>(coordinates.size())}, {}};
  const int table = program.new_value(type, -1);
  program.value(table).memory = Memory::constant;
  program.value(table).index = static_cast<int>(program.new_constant(std::as_bytes(std::span(coordinates))));
  std::vector<std::uint64_t> offsets;
  for (int s = 0; s < mesh.local_shards; ++s) {
    offsets.push_back(sizeof(std::int32_t) * static_cast<std::uint64_t>(mesh.coordinate(mesh.first_shard + s, axis)));
  }
  StoredValue& index = program.value(item.outputs[0]);
  index.root = table;
  index.cut = static_cast<int>(program.cuts.size());
  program.cuts.push_back(std::move(offsets));
}

/// Of the same elements in another shape: contiguous, or one repeated.
Strides strides_in_place(const StoredValue& from, const Shape& shape) {
  if (from.type.shape == shape) return from.strides;
  return from.is_contiguous() ? contiguous_strides(shape) : Strides{};
}

void alias_cut(Program& program, const Item& item, int result) {
  const Mesh& mesh = program.meshes[static_cast<std::size_t>(item.mesh)];
  const StoredValue from = program.value(item.inputs[0]);
  StoredValue& to = program.value(result);
  to.root = from.root;
  to.offset = from.offset;
  if (item.stacked < 0) to.strides = from.strides;
  to.cut = static_cast<int>(program.cuts.size());
  program.cuts.push_back(cut_offsets(mesh, item, to.type.shape, from.strides, to.type.dtype));
}

void resolve_alias(Program& program, const Item& item) {
  if (item.primitive == &ops::primitives::axis_index()) return alias_axis_index(program, item);
  if (item.kind == Item::Kind::cut_in) return alias_cut(program, item, item.outputs[0]);
  if (item.primitive == &ops::primitives::full()) {
    const ArrayType one{program.value(item.outputs[0]).type.dtype, Shape{}, {}};
    const int constant = constant_value(program, item, one, item.attrs.with("shape", Dims{}));
    StoredValue& to = program.value(item.outputs[0]);
    to.root = constant;
    to.strides = {};
    return;
  }
  if (is_table(program, item)) {
    const ArrayType type{program.value(item.outputs[0]).type.dtype, program.value(item.outputs[0]).type.shape, {}};
    const int constant = constant_value(program, item, type, item.attrs);
    program.value(item.outputs[0]).root = constant;
    return;
  }
  const StoredValue from = program.value(item.inputs[0]);
  StoredValue& to = program.value(item.outputs[0]);
  if (has_view(item)) {
    const ir::View view = view_of(item, from.type.shape, from.strides);
    to.strides = view.strides;
    to.offset = from.offset + view.offset * static_cast<std::int64_t>(size_of(from.type.dtype));
  } else {
    to.strides = strides_in_place(from, to.type.shape);
    to.offset = from.offset;
  }
  to.root = from.root;
  to.cut = from.cut;
}

std::vector<Ref> refs(const std::vector<int>& values) {
  std::vector<Ref> result;
  for (int v : values) result.push_back({v, -1});
  return result;
}

/// A sum over all elements: of each tile, then of the tiles.
void add_cut_sum(Program& program, const Item& item) {
  const DType dtype = program.value(item.outputs[0]).type.dtype;
  const int sums = program.new_value({dtype, Shape{ceil_div(item.tiled, tile_elements)}, {}}, -1);
  program.value(sums).is_one_a_tile = true;
  Unit tiles;
  tiles.mesh = item.mesh;
  tiles.tiled = item.tiled;
  tiles.calls.push_back({item.kernel, item.rest_kernel, refs(item.inputs), {{sums, -1}}, item.op});
  program.units.push_back(std::move(tiles));
  Unit join;
  join.mesh = item.mesh;
  join.calls.push_back({program.kernels.adopt(std::make_unique<PairwiseSumKernel>()),
                        nullptr,
                        {{sums, -1}},
                        refs(item.outputs),
                        "join_sums"});
  program.units.push_back(std::move(join));
}

/// Adds the call of an op's kernel: as the calls of its parts, where it is large and several devices are there.
void add_cut_call(Program& program, Unit& unit, UnitCall call, std::string_view op, const Attrs& attrs) {
  if (program.sharing_devices() > 1) {
    for (const Kernel* part :
         program.kernels.parts(op, attrs, program.types(call.inputs), program.types(call.outputs))) {
      unit.in_parts = true;
      unit.calls.push_back({part, nullptr, call.inputs, call.outputs, call.name});
    }
  }
  if (!unit.in_parts) unit.calls.push_back(std::move(call));
}

void add_kernel_unit(Program& program, const Item& item) {
  Unit unit;
  unit.mesh = item.mesh;
  unit.pmap = item.pmap;
  unit.tiled = item.tiled;
  unit.together = item.together;
  UnitCall call{item.kernel, item.rest_kernel, refs(item.inputs), refs(item.outputs), label(item)};
  if (item.kind == Item::Kind::cut_in) {
    const StoredValue& to = program.value(item.outputs[0]);
    const int source = program.new_value(to.type, item.pmap);
    alias_cut(program, item, source);
    call.inputs = {{source, -1}};
  }
  if (item.kind == Item::Kind::pick) call.inputs[0].shard = 0;
  if (item.kind == Item::Kind::equation && item.pmap < 0 && item.tiled == 0) {
    add_cut_call(program, unit, std::move(call), item.op, item.attrs);
  } else {
    unit.calls.push_back(std::move(call));
  }
  program.units.push_back(std::move(unit));
}

/// A convolution of all shards, those of a device in one call.
void add_of_shards(Program& program, const Item& item) {
  const Mesh& mesh = program.meshes[static_cast<std::size_t>(item.mesh)];
  Unit unit;
  unit.mesh = item.mesh;
  unit.in_parts = mesh.devices > 1;
  const int shards = mesh.local_shards / mesh.devices;
  for (int first = 0; first < mesh.local_shards; first += shards) {
    UnitCall call{item.of_shards, nullptr, {}, {}, item.primitive->grouped.of_shards};
    for (int shard = first; shard < first + shards; ++shard) {
      call.inputs.push_back({item.inputs[0], shard});
      call.outputs.push_back({item.outputs[0], shard});
    }
    call.inputs.push_back({item.inputs[1], -1});
    unit.calls.push_back(std::move(call));
  }
  program.units.push_back(std::move(unit));
}

/// The products of all shards and their sum.
void add_sum_of_products(Program& program, const Item& sum, const Item& product) {
  Unit unit;
  unit.mesh = sum.mesh;
  unit.collectives = 1;
  unit.collective = {ops::primitives::psum().name, program.value(sum.outputs[0]).type.nbytes()};
  const std::string& op = product.primitive->grouped.sum;
  add_cut_call(program, unit, {sum.kernel, nullptr, operands_of_all_shards(program, product), refs(sum.outputs), op},
               op, product.attrs);
  program.units.push_back(std::move(unit));
}

/// Results must be whole buffers: what is only a part or a repetition of one is copied.
void copy_partial_outputs(Program& program) {
  for (int& output : program.outputs) {
    const StoredValue value = program.value(output);
    const StoredValue& root = program.value(value.root);
    const bool whole = value.offset == 0 && value.cut < 0 && value.is_contiguous() && root.memory != Memory::constant &&
                       value.nbytes() == root.nbytes() && root.pmap < 0;
    if (whole) continue;
    const int copy = program.new_value(value.type, -1);
    Unit unit;
    unit.calls.push_back(
        {program.kernels.adopt(std::make_unique<CopyKernel>()), nullptr, {{output, -1}}, {{copy, -1}}, "copy"});
    program.units.push_back(std::move(unit));
    output = copy;
  }
}

void add_unique(std::vector<int>& values, int value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

void note_roots(Program& program) {
  for (Unit& unit : program.units) {
    for (const UnitCall& call : unit.calls) {
      for (const Ref& ref : call.outputs) add_unique(unit.writes, program.root(ref.value));
    }
    for (const UnitCall& call : unit.calls) {
      for (const Ref& ref : call.inputs) add_unique(unit.reads, program.root(ref.value));
    }
  }
}

}  // namespace

void make_units(Program& program) {
  for (const Item& item : program.items) {
    const std::size_t first = program.units.size();
    if (item.joined) continue;
    const Item* product = item.product < 0 ? nullptr : &program.items[static_cast<std::size_t>(item.product)];
    if (product != nullptr) {
      add_sum_of_products(program, item, *product);
    } else if (item.of_shards != nullptr) {
      add_of_shards(program, item);
    } else if (item.alias) {
      resolve_alias(program, item);
    } else if (item.kind == Item::Kind::assemble) {
      add_assemble_units(program, item);
    } else if (is_collective(item)) {
      add_collective_units(program, item);
    } else if (item.primitive == &ops::primitives::reduce_sum() && item.tiled > 0) {
      add_cut_sum(program, item);
    } else {
      add_kernel_unit(program, item);
    }
    for (std::size_t u = first; u < program.units.size(); ++u) {
      program.units[u].fence = item.fence;
      program.units[u].provenance = product == nullptr ? item.provenance : product->provenance;
    }
  }
  copy_partial_outputs(program);
  note_roots(program);
}

}  // namespace lockstep::compile
