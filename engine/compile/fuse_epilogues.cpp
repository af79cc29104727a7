#include "engine/compile/fuse_epilogues.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/backend/element_loop.h>
#include <lockstep/backend/row_kernels.h>

#include "engine/executable/epilogue_kernel.h"
#include "engine/ir/def_use.h"
#include "engine/ir/primitive.h"

// A convolution and the element-wise loop that reads its result first (its bias, its activation, the sums of a
// normalization) become one call: some rows of the result are made, the loop goes over them while the cache holds them.
namespace lockstep::compile {
namespace {

/// What a loop runs over.
Shape loop_shape(const Program& program, const Item& item) {
  const std::vector<ArrayType> inputs = program.types(item.inputs), outputs = program.types(item.outputs);
  if (const ElementLoop* loop = element_loop(item.attrs)) return loop->shape(inputs, outputs);
  return ir::is_loop_sum(item.primitive, item.attrs) ? inputs[0].shape : outputs[0].shape;
}

bool is_sum(const Item& item, std::size_t result) {
  const ElementLoop* loop = element_loop(item.attrs);
  return loop == nullptr ? ir::is_loop_sum(item.primitive, item.attrs) : !loop->results()[result].sum_over.empty();
}

class EpilogueFusion {
 public:
  EpilogueFusion(const Program& program, const KernelChoices& choices, const GroupedItems& grouped)
      : program_(program),
        choices_(choices),
        grouped_(grouped),
        result_(no_epilogues(program)),
        chains_(program.values.size()) {}

  Epilogues run() {
    for (int i = 0; i < program_.items.size(); ++i) {
      for (const int v : item(i).outputs) chains_.define(v, i);
      for (const int v : item(i).inputs) chains_.use(v, i);
    }
    for (const int v : program_.outputs) chains_.use(v, ir::DefUse::nobody);
    for (const auto& fence : program_.fences) {
      for (const int v : fence) chains_.use(v, ir::DefUse::nobody);
    }
    for (int i = 0; i < program_.items.size(); ++i) {
      if (is_writer(i)) fuse(i);
    }
    return std::move(result_);
  }

 private:
  const Item& item(int i) const { return program_.items[i]; }
  const ArrayType& type(int v) const { return program_.type(v); }

  bool is_in_map(int i) const {
    const Item& it = item(i);
    return it.kind == Item::Kind::equation && it.pmap >= 0 && !choices_[i].is_view && choices_[i].tiled == 0 &&
           !grouped_[i].is_in_sum && result_.of_item[i] < 0;
  }
  bool is_writer(int i) const {
    return is_in_map(i) && grouped_[i].kernel == nullptr &&
           dynamic_cast<const RowWriter*>(choices_[i].kernel) != nullptr;
  }

  void fuse(int w) {
    for (const int l : chains_.uses(item(w).outputs[0])) {
      const std::optional<int> at = l < 0 ? std::nullopt : place_of(w, l);
      if (!at || !can_follow(w, l)) continue;
      const int f = result_.fused.add(fused_item(w, l, *at));
      result_.of_item[w] = result_.of_item[l] = f;
      for (const int v : result_.fused[f].item.outputs) chains_.define(v, *at);
      return;
    }
  }

  /// Whether the loop goes over the rows of the writer's result.
  bool can_follow(int w, int l) const {
    const Item& writer = item(w);
    const Item& loop = item(l);
    const auto* kernel = dynamic_cast<const RowLoop*>(choices_[l].kernel);
    if (!is_in_map(l) || kernel == nullptr || loop.pmap != writer.pmap || loop.fence != writer.fence) return false;
    return kernel->rows() > 0 && loop_shape(program_, loop) == type(writer.outputs[0]).shape;
  }

  /// Of both, the item where all that both read is there and nothing has read what they give.
  std::optional<int> place_of(int w, int l) const {
    const int result = item(w).outputs[0];
    if (std::ranges::all_of(item(l).inputs, [&](int v) { return v == result || is_there(v, w); })) return w;
    const bool is_first = std::ranges::all_of(chains_.uses(result), [&](int i) { return i >= l; });
    return is_first ? std::optional(l) : std::nullopt;
  }

  /// Whether the memory that `v` lies in has been written before item `i`.
  bool is_there(int v, int i) const {
    while (true) {
      const int p = chains_.definition(v);
      if (p < i) return true;
      if (!choices_[p].is_view) return false;
      if (item(p).inputs.empty()) return true;
      v = item(p).inputs[0];
    }
  }

  FusedItem fused_item(int w, int l, int at) const {
    const Item& writer = item(w);
    const Item& loop = item(l);
    const int result = writer.outputs[0];
    EpilogueKernel::Arrays arrays{writer.inputs.size(), {}, loop.outputs.size(), place_of_result(w, l)};
    FusedItem fused{at, writer, nullptr};
    Item& it = fused.item;
    it.op = writer.op + " + " + label(loop);
    it.attrs = {};
    it.outputs = loop.outputs;
    if (arrays.result_in < 0) it.outputs.push_back(result);
    for (const int v : loop.inputs) {
      arrays.is_written.push_back(v == result);
      if (v != result) it.inputs.push_back(v);
    }
    KernelPool::Note note = program_.kernels.note(choices_[w].kernel);
    note.flops += program_.kernels.note(choices_[l].kernel).flops;
    fused.kernel = program_.kernels.adopt(
        std::make_unique<EpilogueKernel>(dynamic_cast<const RowWriter&>(*choices_[w].kernel),
                                         dynamic_cast<const RowLoop&>(*choices_[l].kernel), std::move(arrays)),
        std::move(note));
    return fused;
  }

  /// The loop's result that may overwrite the writer's, which nobody else reads; -1 where it is kept.
  int place_of_result(int w, int l) const {
    const Item& loop = item(l);
    const int written = item(w).outputs[0];
    if (chains_.has_several_users(written)) return -1;
    for (std::size_t r = 0; r < loop.outputs.size(); ++r) {
      if (is_sum(loop, r) || type(loop.outputs[r]).dtype != type(written).dtype) continue;
      bool fits = true;
      for (std::size_t k = 0; k < loop.inputs.size(); ++k) {
        const bool shares = choices_[l].kernel->may_share(static_cast<int>(k), static_cast<int>(r));
        fits = fits && (loop.inputs[k] != written || shares);
      }
      if (fits) return static_cast<int>(r);
    }
    return -1;
  }

  const Program& program_;
  const KernelChoices& choices_;
  const GroupedItems& grouped_;
  Epilogues result_;
  ir::DefUse chains_;  // of values, by items; a fence reads them as the caller does
};

}  // namespace

Epilogues no_epilogues(const Program& program) { return {{}, IdVector<int>(program.items.size(), -1)}; }

Epilogues fuse_epilogues(const Program& program, const KernelChoices& choices, const GroupedItems& grouped) {
  return program.meshes.empty() ? no_epilogues(program) : EpilogueFusion(program, choices, grouped).run();
}

}  // namespace lockstep::compile
