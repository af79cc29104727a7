#include <algorithm>
#include <bit>
#include <span>

#include "engine/compile/element_loops.h"
#include "engine/compile/program.h"
#include "engine/executable/copy_kernel.h"
#include "engine/ops/primitives.h"

// Which equations need no kernel because their result can be read where their operand lies. Decided from the last
// equation to the first, so that for each value it is known what its readers accept.
namespace lockstep::compile {
namespace {

using Dims = std::vector<std::int64_t>;

/// What all readers of a value accept.
struct Accepted {
  bool strided = true;  ///< Any strides.
  bool uniform = true;  ///< One element read again and again.
};

bool is_in_place(const Item& item) {
  return item.primitive != nullptr && item.primitive->traits.moves == ir::Moves::in_place;
}

/// Whether the view of a contiguous operand is contiguous too.
bool keeps_contiguity(const Program& program, const Item& item) {
  const ArrayType& from = program.value(item.inputs[0]).type;
  StoredValue view;
  view.type = program.value(item.outputs[0]).type;
  view.strides = contiguous_strides(from.shape);
  if (has_view(item)) view.strides = view_of(item, from.shape, view.strides).strides;
  return (from.size() == 1 && view.type.size() == 1) || view.is_contiguous();
}

class ViewChooser {
 public:
  explicit ViewChooser(Program& program) : program_(program), accepted_(program.values.size()) {}

  void run() {
    for (int v : program_.outputs) need_contiguous(v);
    for (auto it = program_.items.rbegin(); it != program_.items.rend(); ++it) visit(*it);
  }

 private:
  Accepted& accepted(int value) { return accepted_[static_cast<std::size_t>(value)]; }
  void need_contiguous(int value) { accepted(value) = {false, false}; }
  void merge(int value, Accepted more) {
    accepted(value).strided = accepted(value).strided && more.strided;
    accepted(value).uniform = accepted(value).uniform && more.uniform;
  }

  void visit(Item& item) {
    if (item.kind == Item::Kind::assemble || item.kind == Item::Kind::control || is_collective(item)) {
      for (int v : item.inputs) need_contiguous(v);
    } else if (item.kind == Item::Kind::pick) {
      item.kernel = program_.kernels.adopt(std::make_unique<CopyKernel>());
    } else if (item.stacked >= 0) {
      item.alias = true;
      need_contiguous(item.inputs[0]);
    } else if (item.primitive == &ops::primitives::axis_index()) {
      item.alias = true;
    } else if (is_in_place(item)) {
      item.alias = true;
      // In another shape, only contiguous elements are in the same order.
      const bool same = program_.value(item.inputs[0]).type.shape == program_.value(item.outputs[0]).type.shape;
      const Accepted readers = accepted(item.outputs[0]);
      merge(item.inputs[0], {readers.strided && same, readers.uniform});
    } else if (item.primitive == &ops::primitives::full()) {
      item.alias = accepted(item.outputs[0]).uniform;
      if (!item.alias) choose_kernel(item);
    } else if (is_table(program_, item)) {
      item.alias = true;
    } else if (item.kind == Item::Kind::cut_in || has_view(item)) {
      visit_view(item);
    } else {
      choose_kernel(item);
    }
  }

  void visit_view(Item& item) {
    const Accepted readers = accepted(item.outputs[0]);
    const bool repeats = has_view(item) && item.primitive->traits.moves == ir::Moves::repeated;
    const bool spreads_one = repeats && program_.value(item.inputs[0]).size() == 1;
    if (readers.strided || (spreads_one && readers.uniform)) {
      item.alias = true;
    } else if (keeps_contiguity(program_, item)) {
      item.alias = true;
      merge(item.inputs[0], {false, readers.uniform});
    } else {
      choose_kernel(item);
    }
    if (item.kind == Item::Kind::cut_in) need_contiguous(item.inputs[0]);
  }

  void choose_kernel(Item& item) {
    if (item.kind == Item::Kind::cut_in) {
      item.kernel = program_.kernels.adopt(std::make_unique<CopyKernel>());
      return;
    }
    std::vector<ArrayType> types;
    for (int v : item.inputs) types.push_back(program_.value(v).type);
    for (int v : item.outputs) types.push_back(program_.value(v).type);
    const std::int64_t elements = types.back().size();
    if (item.pointwise && item.pmap < 0 && program_.is_shared && elements >= tile_elements) {
      item.tiled = elements;
      item.kernel = flat_kernel(item, types, tile_elements);
      const std::int64_t rest = elements % tile_elements;
      item.rest_kernel = rest == 0 ? nullptr : flat_kernel(item, types, rest);
    } else {
      const std::span<const ArrayType> all(types);
      item.kernel =
          program_.kernels.get(item.op, item.attrs, all.first(item.inputs.size()), all.subspan(item.inputs.size()));
    }
    if (item.primitive == &ops::primitives::reduce_sum() && may_be_summed_in_tiles(item, types[0]))
      cut_sum(item, types);
    for (int v : item.inputs) {
      const bool strided = item.kernel->accepts_strided();
      merge(v, {strided && item.tiled == 0, strided});
    }
  }

  /// A large sum over all elements, whose kernel says that those of tiles give its bits.
  bool may_be_summed_in_tiles(const Item& item, const ArrayType& operand) const {
    const std::int64_t apart = item.kernel->summed_apart();
    return item.pmap < 0 && program_.is_shared && operand.size() >= tile_elements && apart > 0 &&
           tile_elements % apart == 0 && std::has_single_bit(static_cast<std::uint64_t>(tile_elements / apart));
  }

  void cut_sum(Item& item, const std::vector<ArrayType>& types) {
    item.tiled = types[0].size();
    const auto kernel = [&](std::int64_t elements) -> const Kernel* {
      const ArrayType tile{types[0].dtype, Shape{elements}, {}};
      const ArrayType sum{types[1].dtype, Shape{}, {}};
      return elements == 0 ? nullptr : program_.kernels.get(item.op, Attrs{{"axes", Dims{0}}}, {&tile, 1}, {&sum, 1});
    };
    item.kernel = kernel(tile_elements);
    item.rest_kernel = kernel(item.tiled % tile_elements);
  }

  const Kernel* flat_kernel(const Item& item, std::vector<ArrayType> types, std::int64_t elements) {
    const std::int64_t whole = types.back().size();
    std::vector<bool> is_full;
    for (ArrayType& type : types) {
      is_full.push_back(type.size() == whole);
      type.shape = is_full.back() ? Shape{elements} : Shape{};
    }
    const ElementLoop* loop = element_loop(item.attrs);
    const Attrs attrs =
        loop == nullptr ? item.attrs : Attrs{{"loop", std::shared_ptr<const AttrObject>(flattened(*loop, is_full))}};
    const std::span<const ArrayType> all(types);
    return program_.kernels.get(item.op, attrs, all.first(item.inputs.size()), all.subspan(item.inputs.size()));
  }

  Program& program_;
  std::vector<Accepted> accepted_;
};

}  // namespace

void choose_views(Program& program) { ViewChooser(program).run(); }

}  // namespace lockstep::compile
