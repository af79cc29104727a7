#include "engine/compile/group_shards.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/ir/def_use.h"
#include "engine/ops/primitives.h"

// What one kernel computes for several shards, where a backend has one that gains by it. A gradient of weights is a
// product for each shard, then their sum: where the operands of all shards are smaller than what the products give, these
// are not written to memory. Convolutions with one window: it is prepared once for a device's shards, not for each.
namespace lockstep::compile {
namespace {

class ShardGrouping {
 public:
  explicit ShardGrouping(const Program& program)
      : program_(program), grouped_(program.items.size()), chains_(program.values.size()) {}

  GroupedItems run() {
    for (int i = 0; i < program_.items.size(); ++i) {
      for (const int v : item(i).outputs) chains_.define(v, i);
      for (const int v : item(i).inputs) chains_.use(v, i);
    }
    for (const int v : program_.outputs) chains_.use(v, ir::DefUse::nobody);
    for (int i = 0; i < program_.items.size(); ++i) {
      if (item(i).primitive != nullptr && !item(i).primitive->grouped.of_shards.empty()) {
        group_convolutions(i);
      } else if (is_whole_sum(item(i))) {
        group_products(i);
      }
    }
    return std::move(grouped_);
  }

 private:
  const Item& item(int i) const { return program_.items[i]; }

  /// A psum over all shards of a map, several of them here: those of a process are a subtree of the sum.
  bool is_whole_sum(const Item& it) const {
    if (!is_collective(it) || it.fence >= 0) return false;
    if (&ir::exchanged_by(*it.primitive, it.attrs) != &ops::primitives::psum()) return false;
    if (program_.values[it.outputs[0]].pmap >= 0) return false;
    const Mesh& mesh = program_.meshes[it.mesh];
    const auto& axes = it.attrs.get<std::vector<std::string>>("axes");
    const bool is_whole = std::ranges::all_of(
        mesh.axes.axes(), [&](const auto& axis) { return axis.size == 1 || std::ranges::count(axes, axis.name) != 0; });
    return is_whole && mesh.local_shards > 1;
  }

  /// The product that `v` is, read by nothing else, or -1.
  int product_of(int v) const {
    while (true) {
      const int i = chains_.definition(v);
      if (i < 0 || chains_.uses(v).size() != 1) return -1;
      const Item& it = item(i);
      if (it.primitive != nullptr && !it.primitive->grouped.sum.empty() && it.pmap >= 0 && it.fence < 0) return i;
      if (it.primitive != &ops::primitives::collective_start()) return -1;
      v = it.inputs[0];
    }
  }

  void group_products(int s) {
    const Item& sum = item(s);
    const int p = product_of(sum.inputs[0]);
    if (p < 0) return;
    const Item& product = item(p);
    std::int64_t kept = 0;
    for (const int v : product.inputs) {
      if (program_.values[v].type.dtype != DType::float32) return;
      kept += program_.values[v].pmap >= 0 ? program_.values[v].type.nbytes() : 0;
    }
    if (kept >= program_.values[product.outputs[0]].type.nbytes()) return;
    const ArrayType& result = program_.values[sum.outputs[0]].type;
    std::vector<ArrayType> operands;
    for (const Ref& ref : operands_of_local_shards(program_, product)) operands.push_back(program_.type(ref.value));
    const Kernel* kernel = program_.kernels.find(product.primitive->grouped.sum, product.attrs, operands, {&result, 1});
    if (kernel == nullptr) return;
    grouped_[p].is_in_sum = true;
    grouped_[s].product = p;
    grouped_[s].kernel = kernel;
  }

  /// What all shards see of `v`, or -1 where each has its own.
  int invariant(int v) const {
    while (program_.values[v].pmap >= 0) {
      const int i = chains_.definition(v);
      if (i < 0 || item(i).primitive != &ops::primitives::pvary()) return -1;
      v = item(i).inputs[0];
    }
    return v;
  }

  void group_convolutions(int c) {
    const Item& convolution = item(c);
    if (convolution.kind != Item::Kind::equation || convolution.pmap < 0 || convolution.fence >= 0) return;
    const Mesh& mesh = program_.meshes[convolution.mesh];
    const int shards = mesh.local_shards / mesh.devices;
    const int window = invariant(convolution.inputs[1]);
    if (shards < 2 || window < 0 || program_.values[convolution.inputs[0]].pmap < 0) return;
    std::vector<ArrayType> inputs(static_cast<std::size_t>(shards), program_.values[convolution.inputs[0]].type);
    inputs.push_back(program_.values[window].type);
    const std::vector<ArrayType> outputs(static_cast<std::size_t>(shards),
                                         program_.values[convolution.outputs[0]].type);
    const Kernel* kernel =
        program_.kernels.find(convolution.primitive->grouped.of_shards, convolution.attrs, inputs, outputs);
    if (kernel == nullptr) return;
    grouped_[c].window = window;
    grouped_[c].kernel = kernel;
  }

  const Program& program_;
  GroupedItems grouped_;
  ir::DefUse chains_;  // of values, by items
};

}  // namespace

std::vector<Ref> operands_of_local_shards(const Program& program, const Item& product) {
  std::vector<Ref> operands;
  for (int s = 0; s < program.meshes[product.mesh].local_shards; ++s) {
    for (const int v : product.inputs) operands.push_back({v, program.values[v].pmap >= 0 ? s : -1});
  }
  return operands;
}

GroupedItems group_shards(const Program& program) {
  return program.meshes.empty() ? GroupedItems(program.items.size()) : ShardGrouping(program).run();
}

}  // namespace lockstep::compile
