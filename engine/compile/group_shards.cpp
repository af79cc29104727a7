#include <algorithm>
#include <utility>
#include <vector>

#include "engine/compile/program.h"
#include "engine/ops/primitives.h"

// What one kernel computes for several shards, where a backend has one that gains by it. A gradient of weights is a
// product for each shard, then their sum: where the operands of all shards are smaller than what the products give, these
// are not written to memory. Convolutions with one window: it is prepared once for a device's shards, not for each.
namespace lockstep::compile {
namespace {

class ShardGrouping {
 public:
  explicit ShardGrouping(Program& program)
      : program_(program), producer_(program.values.size(), -1), reads_(program.values.size(), 0) {}

  void run() {
    for (std::size_t i = 0; i < program_.items.size(); ++i) {
      for (const int v : program_.items[i].outputs) producer_[static_cast<std::size_t>(v)] = static_cast<int>(i);
      for (const int v : program_.items[i].inputs) ++reads_[static_cast<std::size_t>(v)];
    }
    for (const int v : program_.outputs) ++reads_[static_cast<std::size_t>(v)];
    for (Item& item : program_.items) {
      if (item.primitive != nullptr && !item.primitive->grouped.of_shards.empty()) {
        join_convolutions(item);
      } else if (program_.processes == 1 && is_whole_sum(item)) {
        join(item);
      }
    }
  }

 private:
  Item& item(int i) { return program_.items[static_cast<std::size_t>(i)]; }

  /// A psum over all shards of a map, all of them here.
  bool is_whole_sum(const Item& it) const {
    if (!is_collective(it) || it.fence >= 0) return false;
    if (&ir::exchanged_by(*it.primitive, it.attrs) != &ops::primitives::psum()) return false;
    if (program_.value(it.outputs[0]).pmap >= 0) return false;
    const Mesh& mesh = program_.meshes[static_cast<std::size_t>(it.mesh)];
    const auto& axes = it.attrs.get<std::vector<std::string>>("axes");
    const bool is_whole = std::ranges::all_of(
        mesh.axes.axes(), [&](const auto& axis) { return axis.size == 1 || std::ranges::count(axes, axis.name) != 0; });
    return is_whole && mesh.shards > 1 && mesh.local_shards == mesh.shards;
  }

  /// The product that `v` is, read by nothing else, or -1.
  int product_of(int v) {
    while (true) {
      const int i = producer_[static_cast<std::size_t>(v)];
      if (i < 0 || reads_[static_cast<std::size_t>(v)] != 1) return -1;
      const Item& it = item(i);
      if (it.primitive != nullptr && !it.primitive->grouped.sum.empty() && it.pmap >= 0 && it.fence < 0) return i;
      if (it.primitive != &ops::primitives::collective_start()) return -1;
      v = it.inputs[0];
    }
  }

  void join(Item& sum) {
    const int p = product_of(sum.inputs[0]);
    if (p < 0) return;
    Item& product = item(p);
    std::int64_t kept = 0;
    for (const int v : product.inputs) {
      if (program_.value(v).type.dtype != DType::float32) return;
      kept += program_.value(v).pmap >= 0 ? program_.value(v).type.nbytes() : 0;
    }
    if (kept >= program_.value(product.outputs[0]).type.nbytes()) return;
    const ArrayType& result = program_.value(sum.outputs[0]).type;
    const Kernel* kernel =
        program_.kernels.find(product.primitive->grouped.sum, product.attrs,
                              program_.types(operands_of_all_shards(program_, product)), {&result, 1});
    if (kernel == nullptr) return;
    product.joined = true;
    sum.product = p;
    sum.kernel = kernel;
  }

  /// What all shards see of `v`, or -1 where each has its own.
  int invariant(int v) {
    while (program_.value(v).pmap >= 0) {
      const int i = producer_[static_cast<std::size_t>(v)];
      if (i < 0 || item(i).primitive != &ops::primitives::pvary()) return -1;
      v = item(i).inputs[0];
    }
    return v;
  }

  void join_convolutions(Item& convolution) {
    if (convolution.kind != Item::Kind::equation || convolution.pmap < 0 || convolution.fence >= 0) return;
    const Mesh& mesh = program_.meshes[static_cast<std::size_t>(convolution.mesh)];
    const int shards = mesh.local_shards / mesh.devices;
    const int window = invariant(convolution.inputs[1]);
    if (shards < 2 || window < 0 || program_.value(convolution.inputs[0]).pmap < 0) return;
    std::vector<ArrayType> inputs(static_cast<std::size_t>(shards), program_.value(convolution.inputs[0]).type);
    inputs.push_back(program_.value(window).type);
    const std::vector<ArrayType> outputs(static_cast<std::size_t>(shards), program_.value(convolution.outputs[0]).type);
    convolution.of_shards =
        program_.kernels.find(convolution.primitive->grouped.of_shards, convolution.attrs, inputs, outputs);
    if (convolution.of_shards != nullptr) convolution.inputs[1] = window;
  }

  Program& program_;
  std::vector<int> producer_;  // by value: the item
  std::vector<int> reads_;     // by value
};

}  // namespace

std::vector<Ref> operands_of_all_shards(const Program& program, const Item& product) {
  std::vector<Ref> operands;
  for (int s = 0; s < program.meshes[static_cast<std::size_t>(product.mesh)].shards; ++s) {
    for (const int v : product.inputs) operands.push_back({v, program.value(v).pmap >= 0 ? s : -1});
  }
  return operands;
}

void group_shards(Program& program) { ShardGrouping(program).run(); }

}  // namespace lockstep::compile
