#include "engine/compile/choose_views.h"

#include <algorithm>
#include <bit>
#include <span>

#include "engine/compile/element_loops.h"
#include "engine/executable/copy_kernel.h"
#include "engine/ops/primitives.h"

// Which equations need no kernel because their result can be read where their operand lies. Decided from the last
// equation to the first, so that for each value it is known what its readers accept.
namespace lockstep::compile {
namespace {

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
  const ArrayType& from = program.type(item.inputs[0]);
  const ArrayType& to = program.type(item.outputs[0]);
  Strides strides = contiguous_strides(from.shape);
  if (has_view(item)) strides = view_of(item, from.shape, strides).strides;
  return (from.size() == 1 && to.size() == 1) || is_contiguous(to.shape, strides);
}

class ViewChooser {
 public:
  explicit ViewChooser(const Program& program)
      : program_(program), choices_(program.items.size()), accepted_(program.values.size()) {}

  KernelChoices run() {
    for (int v : program_.outputs) need_contiguous(v);
    for (int i = program_.items.size(); i-- > 0;) visit(program_.items[i], choices_[i]);
    return std::move(choices_);
  }

 private:
  Accepted& accepted(int value) { return accepted_[value]; }
  void need_contiguous(int value) { accepted(value) = {false, false}; }
  void merge(int value, Accepted more) {
    accepted(value).strided = accepted(value).strided && more.strided;
    accepted(value).uniform = accepted(value).uniform && more.uniform;
  }

  void visit(const Item& item, KernelChoice& choice) {
    choice.kernel = item.control;
    if (item.kind == Item::Kind::assemble || item.kind == Item::Kind::control || is_collective(item)) {
      for (int v : item.inputs) need_contiguous(v);
    } else if (item.kind == Item::Kind::pick) {
      choice.kernel = program_.kernels.adopt(std::make_unique<CopyKernel>());
    } else if (item.stacked >= 0) {
      choice.is_view = true;
      need_contiguous(item.inputs[0]);
    } else if (item.primitive == &ops::primitives::axis_index()) {
      choice.is_view = true;
    } else if (is_in_place(item)) {
      choice.is_view = true;
      // In another shape, only contiguous elements are in the same order.
      const bool same = program_.type(item.inputs[0]).shape == program_.type(item.outputs[0]).shape;
      const Accepted readers = accepted(item.outputs[0]);
      merge(item.inputs[0], {readers.strided && same, readers.uniform});
    } else if (item.primitive == &ops::primitives::full()) {
      choice.is_view = accepted(item.outputs[0]).uniform;
      if (!choice.is_view) choose_kernel(item, choice);
    } else if (is_table(program_, item)) {
      choice.is_view = true;
    } else if (item.kind == Item::Kind::cut_in || has_view(item)) {
      visit_view(item, choice);
    } else {
      choose_kernel(item, choice);
    }
  }

  void visit_view(const Item& item, KernelChoice& choice) {
    const Accepted readers = accepted(item.outputs[0]);
    const bool repeats = has_view(item) && item.primitive->traits.moves == ir::Moves::repeated;
    const bool spreads_one = repeats && program_.values[item.inputs[0]].size() == 1;
    if (readers.strided || (spreads_one && readers.uniform)) {
      choice.is_view = true;
    } else if (keeps_contiguity(program_, item)) {
      choice.is_view = true;
      merge(item.inputs[0], {false, readers.uniform});
    } else {
      choose_kernel(item, choice);
    }
    if (item.kind == Item::Kind::cut_in) need_contiguous(item.inputs[0]);
  }

  void choose_kernel(const Item& item, KernelChoice& choice) {
    if (item.kind == Item::Kind::cut_in) {
      choice.kernel = program_.kernels.adopt(std::make_unique<CopyKernel>());
      return;
    }
    const detail::CallSite op(item.provenance.at);  // errors say where the op was called, not the compiled function
    std::vector<ArrayType> types = program_.types(item.inputs);
    for (int v : item.outputs) types.push_back(program_.type(v));
    const std::span<const ArrayType> all(types);
    const auto inputs = all.first(item.inputs.size()), outputs = all.subspan(item.inputs.size());
    const ElementLoop* loop = element_loop(item.attrs);
    const std::int64_t elements = (loop == nullptr ? types.back().shape : loop->shape(inputs, outputs)).size();
    const bool has_sums = loop != nullptr && loop->has_sums();
    bool is_cut = item.pointwise && item.pmap < 0 && program_.is_shared && elements >= tile_elements;
    if (!is_cut || has_sums) choice.kernel = program_.kernels.get(item.op, item.attrs, inputs, outputs);
    // Nothing is summed in a last tile of one element, of which a loop has no kernel.
    if (has_sums) is_cut = is_cut && may_be_summed_in_tiles(*choice.kernel) && elements % tile_elements != 1;
    if (is_cut) {
      choice.tiled = elements;
      choice.kernel = flat_kernel(item, types, elements, tile_elements);
      const std::int64_t rest = elements % tile_elements;
      choice.rest_kernel = rest == 0 ? nullptr : flat_kernel(item, types, elements, rest);
    }
    if (item.primitive == &ops::primitives::reduce_sum() && item.pmap < 0 && program_.is_shared &&
        types[0].size() >= tile_elements && may_be_summed_in_tiles(*choice.kernel)) {
      cut_sum(item, choice, types);
    }
    for (int v : item.inputs) {
      const bool strided = choice.kernel->accepts_strided();
      merge(v, {strided && choice.tiled == 0, strided});
    }
  }

  /// Whether the kernel, of sums over all elements, says that those of tiles give their bits.
  static bool may_be_summed_in_tiles(const Kernel& kernel) {
    const std::int64_t apart = kernel.summed_apart();
    return apart > 0 && tile_elements % apart == 0 &&
           std::has_single_bit(static_cast<std::uint64_t>(tile_elements / apart));
  }

  void cut_sum(const Item& item, KernelChoice& choice, const std::vector<ArrayType>& types) {
    choice.tiled = types[0].size();
    const auto kernel = [&](std::int64_t elements) -> const Kernel* {
      const ArrayType tile{types[0].dtype, Shape{elements}, {}};
      const ArrayType sum{types[1].dtype, Shape{}, {}};
      return elements == 0 ? nullptr : program_.kernels.get(item.op, Attrs{{"axes", Dims{0}}}, {&tile, 1}, {&sum, 1});
    };
    choice.kernel = kernel(tile_elements);
    choice.rest_kernel = kernel(choice.tiled % tile_elements);
  }

  const Kernel* flat_kernel(const Item& item, std::vector<ArrayType> types, std::int64_t whole, std::int64_t elements) {
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

  const Program& program_;
  KernelChoices choices_;
  IdVector<Accepted> accepted_;  // by value
};

}  // namespace

KernelChoices choose_views(const Program& program) { return ViewChooser(program).run(); }

}  // namespace lockstep::compile
