#include "engine/compile/make_units.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include <lockstep/backend/element_loop.h>
#include <lockstep/backend/round_up.h>
#include <lockstep/error.h>

#include "engine/core/lists.h"
#include "engine/executable/copy_kernel.h"
#include "engine/executable/pairwise_sum_kernel.h"
#include "engine/ops/primitives.h"

namespace lockstep::compile {
namespace {

/// Of the same elements in another shape: contiguous, or one repeated.
Strides strides_in_place(const StoredValue& from, const Shape& shape) {
  if (from.type.shape == shape) return from.strides;
  return from.is_contiguous() ? contiguous_strides(shape) : Strides{};
}

std::vector<Ref> refs(const std::vector<int>& values) {
  std::vector<Ref> result;
  for (int v : values) result.push_back({v, -1});
  return result;
}

/// Goes through the items once, in order.
class UnitWriter {
 public:
  UnitWriter(const Program& program, const KernelChoices& choices, const GroupedItems& grouped,
             const Epilogues& epilogues)
      : program_(program), choices_(choices), grouped_(grouped), epilogues_(epilogues), to_(program) {}

  UnitProgram run() {
    for (int i = 0; i < program_.items.size(); ++i) {
      if (grouped_[i].is_in_sum) continue;
      const FusedItem* fused = epilogues_.at(i);
      if (epilogues_.of_item[i] >= 0 && fused == nullptr) continue;
      const int first = to_.units.size();
      const Item& item = fused == nullptr ? program_.items[i] : fused->item;
      if (fused != nullptr) {
        add_kernel_unit(item, {false, 0, fused->kernel, nullptr});
      } else {
        write(i);
      }
      if (!item.collectives.empty()) to_.units.back().collectives = item.collectives;
      const bool is_sum = grouped_[i].product >= 0;
      for (int u = first; u < to_.units.size(); ++u) {
        to_.units[u].fence = item.fence;
        to_.units[u].provenance = is_sum ? program_.items[grouped_[i].product].provenance : item.provenance;
      }
    }
    copy_partial_outputs();
    note_roots();
    join_folds(program_, to_);
    gather_late(program_, to_);
    return std::move(to_);
  }

 private:
  void write(int i) {
    const Item& item = program_.items[i];
    const KernelChoice& choice = choices_[i];
    if (grouped_[i].product >= 0) {
      add_sum_of_products(item, grouped_[i]);
    } else if (grouped_[i].kernel != nullptr) {
      add_of_shards(item, grouped_[i]);
    } else if (choice.is_view) {
      resolve_view(item);
    } else if (item.kind == Item::Kind::assemble) {
      add_assemble_units(program_, item, to_);
    } else if (is_collective(item)) {
      add_collective_units(program_, item, to_);
    } else if (has_sums(item) && choice.tiled > 0) {
      add_with_cut_sums(item, choice);
    } else {
      add_kernel_unit(item, choice);
    }
  }

  // ---- views -----------------------------------------------------------------------------------------------------

  /// What an item without operands gives, computed by its kernel while the function is lowered.
  int constant_value(const Item& item, const ArrayType& type, const Attrs& attrs) {
    const Kernel* kernel = program_.kernels.get(item.op, attrs, {}, {&type, 1});
    std::vector<std::byte> bytes(static_cast<std::size_t>(type.nbytes()) + 64), scratch(kernel->scratch_bytes());
    void* aligned = bytes.data();
    std::size_t room = bytes.size();
    std::align(64, static_cast<std::size_t>(type.nbytes()), aligned, room);
    const ArrayView view = contiguous_view(aligned, type.dtype, type.shape);
    kernel->run({{}, {&view, 1}, scratch.data()});
    return to_.new_constant(type, {static_cast<const std::byte*>(aligned), static_cast<std::size_t>(type.nbytes())});
  }

  /// The coordinates along an axis, read by each shard at its own.
  void view_axis_index(const Item& item) {
    const Mesh& mesh = program_.meshes[item.mesh];
    const auto& axis = item.attrs.get<std::string>("axis");
    std::vector<std::int32_t> coordinates;
    for (std::int64_t i = 0; i < mesh.axes.size(axis, item.op); ++i) {
      coordinates.push_back(static_cast<std::int32_t>(i));
    }
    const ArrayType type{DType::int32, Shape{static_cast<std::int64_t>(coordinates.size())}, {}};
    const int table = to_.new_constant(type, std::as_bytes(std::span(coordinates)));
    std::vector<std::uint64_t> offsets;
    for (int s = 0; s < mesh.local_shards; ++s) {
      offsets.push_back(sizeof(std::int32_t) * static_cast<std::uint64_t>(mesh.coordinate(mesh.first_shard + s, axis)));
    }
    StoredValue& index = to_.values[item.outputs[0]];
    index.root = table;
    index.cut = to_.cuts.add(std::move(offsets));
  }

  void view_cut(const Item& item, int result) {
    const Mesh& mesh = program_.meshes[item.mesh];
    const StoredValue from = to_.values[item.inputs[0]];
    StoredValue& to = to_.values[result];
    to.root = from.root;
    to.offset = from.offset;
    if (item.stacked < 0) to.strides = from.strides;
    to.cut = to_.cuts.add(cut_offsets(mesh, item, to.type.shape, from.strides, to.type.dtype));
  }

  void resolve_view(const Item& item) {
    if (item.primitive == &ops::primitives::axis_index()) return view_axis_index(item);
    if (item.kind == Item::Kind::cut_in) return view_cut(item, item.outputs[0]);
    if (item.primitive == &ops::primitives::full()) {
      const ArrayType one{to_.values[item.outputs[0]].type.dtype, Shape{}, {}};
      const int constant = constant_value(item, one, item.attrs.with("shape", Dims{}));
      StoredValue& to = to_.values[item.outputs[0]];
      to.root = constant;
      to.strides = {};
      return;
    }
    if (is_table(program_, item)) {
      const ArrayType type{to_.values[item.outputs[0]].type.dtype, to_.values[item.outputs[0]].type.shape, {}};
      const int constant = constant_value(item, type, item.attrs);
      to_.values[item.outputs[0]].root = constant;
      return;
    }
    const StoredValue from = to_.values[item.inputs[0]];
    StoredValue& to = to_.values[item.outputs[0]];
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

  // ---- units -----------------------------------------------------------------------------------------------------

  /// What a cut unit writes for a sum over all elements: that of each tile.
  int sums_of_tiles(int sum, std::int64_t elements) {
    const int sums = to_.new_value({to_.values[sum].type.dtype, Shape{ceil_div(elements, tile_elements)}, {}}, -1);
    to_.values[sums].is_one_a_tile = true;
    return sums;
  }

  void add_join(const Item& item, int sums, int sum) {
    Unit join;
    join.mesh = item.mesh;
    join.calls.push_back({program_.kernels.adopt(std::make_unique<PairwiseSumKernel>()),
                          nullptr,
                          {{sums, -1}},
                          {{sum, -1}},
                          "join_sums"});
    to_.units.add(std::move(join));
  }

  /// A sum over all elements, or a loop with such sums: of each tile, then of the tiles.
  void add_with_cut_sums(const Item& item, const KernelChoice& choice) {
    const ElementLoop* loop = element_loop(item.attrs);
    Unit tiles;
    tiles.mesh = item.mesh;
    tiles.tiled = choice.tiled;
    UnitCall call{choice.kernel, choice.rest_kernel, refs(item.inputs), {}, label(item)};
    std::vector<std::pair<int, int>> joined;  // sums of tiles, and their sum
    for (std::size_t r = 0; r < item.outputs.size(); ++r) {
      const int output = item.outputs[r];
      const bool is_sum = loop == nullptr || !loop->results()[r].sum_over.empty();
      if (is_sum) joined.emplace_back(sums_of_tiles(output, choice.tiled), output);
      call.outputs.push_back({is_sum ? joined.back().first : output, -1});
    }
    tiles.calls.push_back(std::move(call));
    to_.units.add(std::move(tiles));
    for (const auto& [sums, sum] : joined) add_join(item, sums, sum);
  }

  static bool has_sums(const Item& item) {
    const ElementLoop* loop = element_loop(item.attrs);
    return item.primitive == &ops::primitives::reduce_sum() || (loop != nullptr && loop->has_sums());
  }

  /// Adds the call of an op's kernel: as the calls of its parts, where it is large and several devices are there.
  void add_cut_call(Unit& unit, UnitCall call, std::string_view op, const Attrs& attrs) {
    if (program_.sharing_devices() > 1) {
      for (const Kernel* part : program_.kernels.parts(op, attrs, to_.types(call.inputs), to_.types(call.outputs))) {
        unit.in_parts = true;
        unit.calls.push_back({part, nullptr, call.inputs, call.outputs, call.name});
      }
    }
    if (!unit.in_parts) unit.calls.push_back(std::move(call));
  }

  void add_kernel_unit(const Item& item, const KernelChoice& choice) {
    Unit unit;
    unit.mesh = item.mesh;
    unit.pmap = item.pmap;
    unit.tiled = choice.tiled;
    unit.together = item.together;
    unit.on_caller = item.on_caller;
    UnitCall call{choice.kernel, choice.rest_kernel, refs(item.inputs), refs(item.outputs), label(item)};
    if (item.kind == Item::Kind::cut_in) {
      const StoredValue& to = to_.values[item.outputs[0]];
      const int source = to_.new_value(to.type, item.pmap);
      view_cut(item, source);
      call.inputs = {{source, -1}};
    }
    if (item.kind == Item::Kind::pick) call.inputs[0].shard = 0;
    if (item.kind == Item::Kind::equation && item.pmap < 0 && choice.tiled == 0) {
      add_cut_call(unit, std::move(call), item.op, item.attrs);
    } else {
      unit.calls.push_back(std::move(call));
    }
    to_.units.add(std::move(unit));
  }

  /// A convolution of all shards, those of a device in one call.
  void add_of_shards(const Item& item, const GroupedItem& grouped) {
    const Mesh& mesh = program_.meshes[item.mesh];
    Unit unit;
    unit.mesh = item.mesh;
    unit.in_parts = mesh.devices > 1;
    const int shards = mesh.local_shards / mesh.devices;
    for (int first = 0; first < mesh.local_shards; first += shards) {
      UnitCall call{grouped.kernel, nullptr, {}, {}, item.primitive->grouped.of_shards};
      for (int shard = first; shard < first + shards; ++shard) {
        call.inputs.push_back({item.inputs[0], shard});
        call.outputs.push_back({item.outputs[0], shard});
      }
      call.inputs.push_back({grouped.window, -1});
      unit.calls.push_back(std::move(call));
    }
    to_.units.add(std::move(unit));
  }

  /// The products of this process's shards and their sum.
  void add_sum_of_products(const Item& sum, const GroupedItem& grouped) {
    const Item& product = program_.items[grouped.product];
    Unit unit;
    unit.mesh = sum.mesh;
    const ArrayType type = to_.values[sum.outputs[0]].type;
    const bool is_local = program_.processes == 1;
    const Ref target = is_local ? Ref{sum.outputs[0], -1} : Ref{to_.new_value({type.dtype, type.shape, {}}, -1), -1};
    const std::string& op = product.primitive->grouped.sum;
    add_cut_call(unit, {grouped.kernel, nullptr, operands_of_local_shards(program_, product), {target}, op}, op,
                 product.attrs);
    to_.units.add(std::move(unit));
    if (!is_local) to_.units.add(fold_unit(sum.mesh, ops::primitives::add(), target, {sum.outputs[0], -1}));
    to_.units.back().collectives = {{ops::primitives::psum().name, type.nbytes()}};
  }

  /// Results must be whole buffers: what is only a part or a repetition of one is copied.
  void copy_partial_outputs() {
    for (int& output : to_.outputs) {
      const StoredValue value = to_.values[output];
      const StoredValue& root = to_.values[value.root];
      const bool whole = value.offset == 0 && value.cut < 0 && value.is_contiguous() &&
                         root.memory != Memory::constant && value.nbytes() == root.nbytes() && root.pmap < 0;
      if (whole) continue;
      const int copy = to_.new_value(value.type, -1);
      Unit unit;
      unit.calls.push_back(
          {program_.kernels.adopt(std::make_unique<CopyKernel>()), nullptr, {{output, -1}}, {{copy, -1}}, "copy"});
      to_.units.add(std::move(unit));
      output = copy;
    }
  }

  static void add_unique(std::vector<int>& values, int value) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }

  void note_roots() {
    for (Unit& unit : to_.units) {
      for (const UnitCall& call : unit.calls) {
        for (const Ref& ref : call.outputs) add_unique(unit.writes, to_.root(ref.value));
      }
      for (const UnitCall& call : unit.calls) {
        for (const Ref& ref : call.inputs) add_unique(unit.reads, to_.root(ref.value));
      }
    }
  }

  const Program& program_;
  const KernelChoices& choices_;
  const GroupedItems& grouped_;
  const Epilogues& epilogues_;
  UnitProgram to_;
};

}  // namespace

bool StoredValue::is_uniform() const {
  for (int d = 0; d < type.shape.rank(); ++d) {
    if (type.shape[d] != 1 && strides[static_cast<std::size_t>(d)] != 0) return false;
  }
  return true;
}

UnitProgram::UnitProgram(const Program& program) : outputs(program.outputs) {
  values.reserve(program.values.size());
  for (const Value& value : program.values) {
    const int id = new_value(value.type, value.pmap);
    values[id].memory = value.memory;
    values[id].index = value.index;
  }
}

std::vector<ArrayType> UnitProgram::types(std::span<const Ref> refs) const {
  std::vector<ArrayType> types;
  for (const Ref& ref : refs) types.push_back(values[ref.value].type);
  return types;
}

int UnitProgram::new_value(const ArrayType& type, int pmap) {
  StoredValue value{{type, pmap}, values.size()};
  value.strides = contiguous_strides(type.shape);
  return values.add(std::move(value));
}

int UnitProgram::new_view(int of, const ArrayType& type, const Strides& strides, std::int64_t offset_bytes, int pmap) {
  const int id = new_value(type, pmap);
  StoredValue& view = values[id];
  view.root = root(of);
  view.cut = values[of].cut;
  view.offset = values[of].offset + offset_bytes;
  view.strides = strides;
  return id;
}

int UnitProgram::new_constant(const ArrayType& type, std::span<const std::byte> bytes) {
  constexpr std::size_t granule = 16;
  const std::size_t offset = round_up(constants.size(), granule);
  constants.resize(offset + bytes.size());
  std::copy(bytes.begin(), bytes.end(), constants.begin() + static_cast<std::ptrdiff_t>(offset));
  const int id = new_value(type, -1);
  values[id].memory = Memory::constant;
  values[id].index = static_cast<int>(offset);
  return id;
}

std::vector<std::uint64_t> cut_offsets(const Mesh& mesh, const Item& item, const Shape& local, const Strides& strides,
                                       DType dtype) {
  const ops::collective::LocalPart part = mesh.part_of(item.layout);
  const auto place = [&](int shard, int d) {
    return item.of_part ? part.place(shard, d) : mesh.block(shard, nth(item.layout, d));
  };
  std::vector<std::uint64_t> offsets;
  for (int s = 0; s < mesh.local_shards; ++s) {
    if (item.stacked >= 0) {
      offsets.push_back(static_cast<std::uint64_t>(s * item.stacked));
      continue;
    }
    std::int64_t elements = 0;
    for (int d = 0; d < std::ssize(item.layout); ++d) {
      elements += place(mesh.first_shard + s, d) * local[d] * nth(strides, d);
    }
    offsets.push_back(static_cast<std::uint64_t>(elements) * size_of(dtype));
  }
  return offsets;
}

UnitProgram make_units(const Program& program, const KernelChoices& choices, const GroupedItems& grouped,
                       const Epilogues& epilogues) {
  return UnitWriter(program, choices, grouped, epilogues).run();
}

}  // namespace lockstep::compile
