#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/compile/make_units.h"
#include "engine/executable/process_kernels.h"
#include "engine/ir/def_use.h"

// Buckets: a message a tensor costs its latency each time, and two processes wait for each other at each. A fold's level is
// how many folds stand one behind the other up to it; those of one level do not wait for each other.
namespace lockstep::compile {
namespace {

const Kernel* chunk_kernel(const Program& program, const ir::Primitive& combine, DType dtype, std::int64_t elements) {
  const ArrayType chunk{dtype, Shape{elements}, {}};
  const std::array<ArrayType, 2> operands = {chunk, chunk};
  return program.kernels.get(combine.name, {}, operands, {&chunk, 1});
}

/// Of a window that the operands of a call lie in at once; more go in pieces.
constexpr std::int64_t longest_window = std::int64_t{64} << 20;

class FoldJoiner {
 public:
  FoldJoiner(const Program& program, UnitProgram& units)
      : program_(program), units_(units), chains_(units.values.size()), levels_(units.units.size(), 0) {}

  void run() {
    if (std::ranges::none_of(units_.units, [](const Unit& it) { return it.folds != nullptr; })) return;
    find_writers();
    find_buckets();
    find_largest();
    for (const auto& [key, bucket] : buckets_) join(bucket);
    reorder();
  }

 private:
  using Bucket = std::vector<int>;  ///< Units.
  using Key = std::tuple<int, int, int, const ir::Primitive*, DType>;

  const Unit& unit(int u) const { return units_.units[u]; }
  int size() const { return units_.units.size(); }

  void find_writers() {
    writers_.resize(size());
    for (int u = 0; u < size(); ++u) {
      const auto add = [&](int root) {
        const int w = chains_.definition(root);
        if (w >= 0 && w != u) writers_[u].push_back(w);
      };
      for (const int root : unit(u).reads) add(root);
      if (unit(u).fence >= 0) {
        for (const int v : program_.fences[unit(u).fence]) add(units_.root(v));
      }
      for (const int root : unit(u).writes) chains_.define(root, u);
    }
  }

  void find_buckets() {
    for (int u = 0; u < size(); ++u) {
      int& level = levels_[u];
      for (const int w : writers_[u]) level = std::max(level, levels_[w] + (unit(w).folds == nullptr ? 0 : 1));
      if (unit(u).folds == nullptr) continue;
      const DType dtype = units_.values[unit(u).calls[0].inputs[0].value].type.dtype;
      buckets_[{level, unit(u).mesh, unit(u).fence, unit(u).folds, dtype}].push_back(u);
    }
  }

  std::int64_t bytes(const Bucket& bucket) const {
    std::int64_t sum = 0;
    for (const int u : bucket) sum += units_.values[unit(u).calls[0].inputs[0].value].type.nbytes();
    return sum;
  }

  /// Of those sums of the bucket that something of the program reads.
  std::int64_t read_bytes(const Bucket& bucket) const {
    IdVector<bool> is_read(units_.values.size(), false);
    for (const Unit& it : units_.units) {
      for (const int root : it.reads) is_read[root] = true;
    }
    std::int64_t sum = 0;
    for (const int u : bucket) {
      const int written = units_.root(unit(u).calls[0].outputs[0].value);
      if (is_read[written]) sum += units_.values[written].type.nbytes();
    }
    return sum;
  }

  /// Two processes of one host: what they have most to add up of is added up tile by tile where it is used. What is not
  /// used here goes in pieces, which the caches hold.
  void find_largest() {
    if (program_.processes != 2 || !program_.group->has_windows() || !program_.is_called) return;
    std::int64_t most = FoldPair::longest_tile;
    for (const auto& [key, bucket] : buckets_) {
      const std::int64_t sum = bytes(bucket);
      if (sum <= most || sum > longest_window || 2 * read_bytes(bucket) < sum) continue;
      most = sum;
      largest_ = bucket.back();
    }
  }

  /// The last unit of a bucket becomes the fold of all.
  void join(const Bucket& bucket) {
    Unit joined = unit(bucket.back());
    joined.calls[0].inputs.clear();
    joined.calls[0].outputs.clear();
    joined.reads.clear();
    joined.writes.clear();
    joined.collectives.clear();
    std::int64_t elements = 0;
    for (const int u : bucket) {
      const Unit& it = unit(u);
      for (const Ref& ref : it.calls[0].inputs) {
        joined.calls[0].inputs.push_back(ref);
        elements += units_.values[ref.value].type.size();
      }
      std::ranges::copy(it.calls[0].outputs, std::back_inserter(joined.calls[0].outputs));
      std::ranges::copy(it.reads, std::back_inserter(joined.reads));
      std::ranges::copy(it.writes, std::back_inserter(joined.writes));
      std::ranges::copy(it.collectives, std::back_inserter(joined.collectives));
      joined_[u] = bucket.back();
    }
    if (bucket.back() == largest_) {
      put_into_window(joined, bucket);
    } else {
      joined.calls[0].kernel = kernel(joined, elements);
    }
    units_.units[bucket.back()] = std::move(joined);
  }

  /// The unit puts its operands into the window; one for each operand stands behind it, which folds.
  void put_into_window(Unit& joined, const Bucket& bucket) {
    UnitCall& call = joined.calls[0];
    const DType dtype = units_.values[call.inputs[0].value].type.dtype;
    const auto count = static_cast<std::int64_t>(call.inputs.size());
    const int addresses = units_.new_value({DType::int64, Shape{2 * count}, {}}, -1);
    // Read whole by each tile.
    const int for_tiles = units_.new_view(addresses, {DType::int64, Shape{2 * count}, {}}, {}, 0, -1);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const Ref from = call.inputs[i], to = call.outputs[i];
      const std::int64_t size = units_.values[from.value].type.size();
      Unit fold;
      fold.mesh = joined.mesh;
      fold.provenance = unit(bucket[i]).provenance;
      fold.tiled = size < tile_elements ? 0 : size;
      const auto kernel = [&](std::int64_t elements) {
        return program_.kernels.adopt(std::make_unique<FoldWithWindow>(
            chunk_kernel(program_, *joined.folds, dtype, elements), i, program_.process == 0));
      };
      const std::int64_t rest = fold.tiled % tile_elements;
      fold.calls.push_back({kernel(fold.tiled == 0 ? size : tile_elements),
                            rest == 0 ? nullptr : kernel(rest),
                            {from, {for_tiles, -1}},
                            {to},
                            "fold_with_window"});
      fold.reads = {units_.root(from.value), addresses};
      fold.writes = {units_.root(to.value)};
      behind_.push_back(std::move(fold));
    }
    call.outputs = {{addresses, -1}};
    call.kernel = program_.kernels.adopt(std::make_unique<PutIntoWindow>(program_.group, dtype));
    call.name = "put_into_window";
    joined.writes = {addresses};
  }

  const Kernel* kernel(const Unit& fold, std::int64_t elements) const {
    const DType dtype = units_.values[fold.calls[0].inputs[0].value].type.dtype;
    const auto cut = FoldCut::of_whole(elements, dtype, *program_.group);
    if (program_.processes == 2 && program_.group->has_windows() && !cut.is_gathered) return pair_kernel(fold, dtype);
    return program_.kernels.adopt(
        std::make_unique<FoldAcrossProcesses>(program_.group, cut, chunk_kernels(program_, *fold.folds, cut)));
  }

  const Kernel* pair_kernel(const Unit& fold, DType dtype) const {
    std::vector<FoldPair::Tile> tiles;
    const std::int64_t width = static_cast<std::int64_t>(size_of(dtype));
    std::int64_t window = 0;
    for (std::size_t i = 0; i < fold.calls[0].inputs.size(); ++i) {
      const std::int64_t size = units_.values[fold.calls[0].inputs[i].value].type.size();
      for (std::int64_t first = 0; first < size; first += FoldPair::longest_tile) {
        const std::int64_t elements = std::min(size - first, FoldPair::longest_tile);
        tiles.push_back({i, static_cast<std::size_t>(first * width), static_cast<std::size_t>(window), elements,
                         chunk_kernel(program_, *fold.folds, dtype, elements)});
        window += elements * width;
      }
    }
    return program_.kernels.adopt(std::make_unique<FoldPair>(program_.group, dtype, std::move(tiles)));
  }

  /// Kahn's algorithm, of what is ready the first one first: where nothing was joined the order stays.
  void reorder() {
    const auto node = [&](int u) { return joined_.contains(u) ? joined_.at(u) : u; };
    IdVector<int> open(size(), 0);
    IdVector<std::vector<int>> readers(size());
    for (int u = 0; u < size(); ++u) {
      for (const int w : writers_[u]) {
        readers[node(w)].push_back(node(u));
        ++open[node(u)];
      }
    }
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int u = 0; u < size(); ++u) {
      if (node(u) == u && open[u] == 0) ready.push(u);
    }
    IdVector<Unit> ordered;
    while (!ready.empty()) {
      const int u = ready.top();
      ready.pop();
      ordered.add(std::move(units_.units[u]));
      if (u == largest_) {
        for (Unit& fold : behind_) ordered.add(std::move(fold));
      }
      for (const int reader : readers[u]) {
        if (--open[reader] == 0) ready.push(reader);
      }
    }
    units_.units = std::move(ordered);
  }

  const Program& program_;
  UnitProgram& units_;
  ir::DefUse chains_;  // of roots, by units
  IdVector<int> levels_;
  IdVector<std::vector<int>> writers_;
  std::map<Key, Bucket> buckets_;
  std::map<int, int> joined_;  // units to the last of their bucket
  int largest_ = -1;           // the last unit of the bucket that goes through a window
  std::vector<Unit> behind_;   // its folds
};

}  // namespace

ChunkKernels chunk_kernels(const Program& program, const ir::Primitive& combine, const FoldCut& cut) {
  return {chunk_kernel(program, combine, cut.dtype, cut.chunk),
          chunk_kernel(program, combine, cut.dtype, cut.last_chunk)};
}

Unit fold_unit(int mesh, const ir::Primitive& combine, Ref from, Ref to) {
  Unit unit;
  unit.mesh = mesh;
  unit.on_caller = true;
  unit.folds = &combine;
  unit.calls.push_back({nullptr, nullptr, {from}, {to}, "fold_across_processes"});
  return unit;
}

Unit fold_blocks_unit(const Program& program, int mesh, const ir::Primitive& combine, Ref from, Ref to,
                      const ArrayType& block) {
  const auto cut = FoldCut::of_blocks(block.size(), block.dtype, *program.group);
  const Kernel* const kernel = program.kernels.adopt(
      std::make_unique<FoldBlocksAcrossProcesses>(program.group, cut, chunk_kernels(program, combine, cut)));
  Unit unit;
  unit.mesh = mesh;
  unit.on_caller = true;
  unit.calls.push_back({kernel, nullptr, {from}, {to}, "fold_blocks_across_processes"});
  return unit;
}

void join_folds(const Program& program, UnitProgram& units) { FoldJoiner(program, units).run(); }

}  // namespace lockstep::compile
