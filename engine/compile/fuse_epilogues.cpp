#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/backend/element_loop.h>
#include <lockstep/backend/row_kernels.h>

#include "engine/compile/program.h"
#include "engine/executable/epilogue_kernel.h"
#include "engine/ir/primitive.h"

// A convolution and the element-wise loop that reads its result first (its bias, its activation, the sums of a
// normalization) become one call: some rows of the result are made, the loop goes over them while the cache holds them.
namespace lockstep::compile {
namespace {

/// What a loop runs over.
Shape loop_shape(const Program& program, const Item& item) {
  std::vector<ArrayType> inputs, outputs;
  for (const int v : item.inputs) inputs.push_back(program.value(v).type);
  for (const int v : item.outputs) outputs.push_back(program.value(v).type);
  if (const ElementLoop* loop = element_loop(item.attrs)) return loop->shape(inputs, outputs);
  return ir::is_loop_sum(item.primitive) ? inputs[0].shape : outputs[0].shape;
}

bool is_sum(const Item& item, std::size_t result) {
  const ElementLoop* loop = element_loop(item.attrs);
  return loop == nullptr ? ir::is_loop_sum(item.primitive) : !loop->results()[result].sum_over.empty();
}

class EpilogueFusion {
 public:
  explicit EpilogueFusion(Program& program)
      : program_(program), producer_(program.values.size(), -1), readers_(program.values.size()) {}

  void run() {
    for (int i = 0; i < items(); ++i) {
      for (const int v : item(i).outputs) producer_[static_cast<std::size_t>(v)] = i;
      for (const int v : item(i).inputs) note_reader(v, i);
    }
    constexpr int elsewhere = -1;
    for (const int v : program_.outputs) note_reader(v, elsewhere);
    for (const auto& fence : program_.fences) {
      for (const int v : fence) note_reader(v, elsewhere);
    }
    for (int i = 0; i < items(); ++i) {
      if (is_writer(item(i))) join(i);
    }
  }

 private:
  int items() const { return static_cast<int>(program_.items.size()); }
  Item& item(int i) { return program_.items[static_cast<std::size_t>(i)]; }
  const ArrayType& type(int v) const { return program_.value(v).type; }

  void note_reader(int v, int i) {
    std::vector<int>& readers = readers_[static_cast<std::size_t>(v)];
    if (std::ranges::count(readers, i) == 0) readers.push_back(i);
  }

  static bool is_in_map(const Item& it) {
    return it.kind == Item::Kind::equation && it.pmap >= 0 && !it.alias && !it.joined && it.tiled == 0;
  }
  static bool is_writer(const Item& it) {
    return is_in_map(it) && it.of_shards == nullptr && dynamic_cast<const RowWriter*>(it.kernel) != nullptr;
  }

  void join(int w) {
    for (const int l : readers_[static_cast<std::size_t>(item(w).outputs[0])]) {
      const std::optional<int> at = l < 0 ? std::nullopt : place_of(w, l);
      if (!at || !can_follow(item(w), item(l))) continue;
      Item joined = joined_item(w, l);
      item(w).joined = item(l).joined = true;
      for (const int v : joined.outputs) producer_[static_cast<std::size_t>(v)] = *at;
      item(*at) = std::move(joined);
      return;
    }
  }

  /// Whether the loop goes over the rows of the writer's result.
  bool can_follow(const Item& writer, const Item& loop) const {
    const auto* kernel = dynamic_cast<const RowLoop*>(loop.kernel);
    if (!is_in_map(loop) || kernel == nullptr || loop.pmap != writer.pmap || loop.fence != writer.fence) return false;
    return kernel->rows() > 0 && loop_shape(program_, loop) == type(writer.outputs[0]).shape;
  }

  /// Of both, the item where all that both read is there and nothing has read what they give.
  std::optional<int> place_of(int w, int l) {
    const int result = item(w).outputs[0];
    if (std::ranges::all_of(item(l).inputs, [&](int v) { return v == result || is_there(v, w); })) return w;
    const auto& readers = readers_[static_cast<std::size_t>(result)];
    const bool is_first = std::ranges::all_of(readers, [&](int i) { return i >= l; });
    return is_first ? std::optional(l) : std::nullopt;
  }

  /// Whether the memory that `v` lies in has been written before item `i`.
  bool is_there(int v, int i) {
    while (true) {
      const int p = producer_[static_cast<std::size_t>(v)];
      if (p < i) return true;
      if (!item(p).alias) return false;
      if (item(p).inputs.empty()) return true;
      v = item(p).inputs[0];
    }
  }

  Item joined_item(int w, int l) {
    const Item& writer = item(w);
    const Item& loop = item(l);
    const int result = writer.outputs[0];
    EpilogueKernel::Arrays arrays{writer.inputs.size(), {}, loop.outputs.size(), place_of_result(writer, loop)};
    Item joined = writer;
    joined.op = writer.op + " + " + label(loop);
    joined.attrs = {};
    joined.outputs = loop.outputs;
    if (arrays.result_in < 0) joined.outputs.push_back(result);
    for (const int v : loop.inputs) {
      arrays.is_written.push_back(v == result);
      if (v != result) joined.inputs.push_back(v);
    }
    KernelTable::Note note = program_.kernels.note(writer.kernel);
    note.flops += program_.kernels.note(loop.kernel).flops;
    joined.kernel = program_.kernels.adopt(
        std::make_unique<EpilogueKernel>(dynamic_cast<const RowWriter&>(*writer.kernel),
                                         dynamic_cast<const RowLoop&>(*loop.kernel), std::move(arrays)),
        std::move(note));
    return joined;
  }

  /// The loop's result that may overwrite the writer's, which nobody else reads; -1 where it is kept.
  int place_of_result(const Item& writer, const Item& loop) const {
    const int written = writer.outputs[0];
    if (readers_[static_cast<std::size_t>(written)].size() > 1) return -1;
    for (std::size_t r = 0; r < loop.outputs.size(); ++r) {
      if (is_sum(loop, r) || type(loop.outputs[r]).dtype != type(written).dtype) continue;
      bool fits = true;
      for (std::size_t k = 0; k < loop.inputs.size(); ++k) {
        const bool shares = loop.kernel->may_share(static_cast<int>(k), static_cast<int>(r));
        fits = fits && (loop.inputs[k] != written || shares);
      }
      if (fits) return static_cast<int>(r);
    }
    return -1;
  }

  Program& program_;
  std::vector<int> producer_;              // by value: the item
  std::vector<std::vector<int>> readers_;  // by value: items, -1 for a fence or the caller
};

}  // namespace

void fuse_epilogues(Program& program) { EpilogueFusion(program).run(); }

}  // namespace lockstep::compile
