#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/compile/collectives/started_folds.h"
#include "engine/compile/make_units.h"
#include "engine/executable/process_kernels.h"
#include "engine/ir/def_use.h"

// Buckets: a message a tensor costs its latency each time, and two processes wait for each other at each. A fold's level is
// how many folds stand one behind the other up to it; those of one level do not wait for each other.
namespace lockstep::compile {
namespace {

/// Of blocks that go together: what waits for the others of its bucket keeps all of the sum that it has a block of.
constexpr std::int64_t most_blocks = std::int64_t{1} << 20;

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
    find_started();
    if (started_.buckets.empty()) find_largest();
    for (const auto& [key, bucket] : buckets_) {
      if (!bucket.empty() && unit(bucket[0]).to_blocks) {
        join_some(bucket);
      } else {
        join(bucket);
      }
    }
    start();
    reorder();
  }

 private:
  using Bucket = std::vector<int>;                                           ///< Units.
  using Key = std::tuple<int, int, int, const ir::Primitive*, bool, DType>;  // level, mesh, fence, op, to blocks

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
      buckets_[{level, unit(u).mesh, unit(u).fence, unit(u).folds, unit(u).to_blocks, dtype}].push_back(u);
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

  /// The sums of one bucket, the one that has most of them, begin while their region runs, in buckets that follow each
  /// other.
  void find_started() {
    std::int64_t most = 0;
    Bucket* from = nullptr;
    for (auto& [key, bucket] : buckets_) {
      StartedFolds found = find_started_folds(program_, units_, writers_, bucket);
      std::int64_t sum = 0;
      for (const Bucket& started : found.buckets) sum += bytes(started);
      if (sum <= most) continue;
      most = sum;
      started_ = std::move(found);
      from = &bucket;
    }
    if (from == nullptr) return;
    for (const Bucket& started : started_.buckets) {
      for (const int u : started) std::erase(*from, u);
    }
  }

  /// Processes of one host: what they have most to add up of is added up tile by tile where it is used, or taken there.
  /// What is not used here goes in pieces, which the caches hold.
  void find_largest() {
    if (program_.processes < 2 || !program_.group->has_windows() || !program_.is_called) return;
    std::int64_t most = FoldPair::longest_tile;
    for (auto& [key, bucket] : buckets_) {
      if (bucket.empty() || unit(bucket[0]).to_blocks) continue;
      const std::int64_t sum = bytes(bucket);
      if (sum <= most || sum > longest_window || 2 * read_bytes(bucket) < sum) continue;
      most = sum;
      started_.buckets = {bucket};
    }
    if (started_.buckets.empty()) return;
    for (auto& [key, bucket] : buckets_) {
      if (bucket == started_.buckets[0]) bucket.clear();
    }
  }

  /// In order, so many at a time as have few bytes.
  void join_some(const Bucket& bucket) {
    Bucket some;
    for (const int u : bucket) {
      some.push_back(u);
      if (bytes(some) <= most_blocks) continue;
      some.pop_back();
      join(some);
      some = {u};
    }
    join(some);
  }

  /// The last unit of a bucket becomes the fold of all.
  void join(const Bucket& bucket) {
    if (bucket.empty()) return;
    Unit joined = join_units(units_, bucket).unit;
    for (const int u : bucket) joined_[u] = bucket.back();
    joined.calls[0].kernel = kernel(joined);
    units_.units[bucket.back()] = std::move(joined);
  }

  /// Those of what begins become the units that begin it; what ends it stands behind the last of them.
  void start() {
    std::vector<JoinedFold> folds;
    for (const Bucket& bucket : started_.buckets) {
      for (const int u : bucket) joined_[u] = bucket.back();
      folds.push_back(join_units(units_, bucket));
    }
    SplitFolds split = split_folds(program_, units_, std::move(folds), started_.pmap, started_.in_region);
    for (std::size_t i = 0; i < split.starts.size(); ++i) {
      units_.units[started_.buckets[i].back()] = std::move(split.starts[i]);
    }
    left_to_start_ = static_cast<int>(split.starts.size());
    ends_ = std::move(split.ends);
    for (const int u : started_.sums) units_.units[u].behind_shards = started_.pmap;
  }

  std::int64_t elements(const std::vector<Ref>& of) const {
    std::int64_t sum = 0;
    for (const Ref& ref : of) sum += units_.values[ref.value].type.size();
    return sum;
  }

  const Kernel* kernel(const Unit& fold) const {
    const DType dtype = units_.values[fold.calls[0].inputs[0].value].type.dtype;
    if (fold.to_blocks) {
      const auto cut = FoldCut::of_blocks(elements(fold.calls[0].outputs), dtype, *program_.group);
      return program_.kernels.adopt(
          std::make_unique<FoldBlocksAcrossProcesses>(program_.group, cut, chunk_kernels(program_, *fold.folds, cut)));
    }
    const auto cut = FoldCut::of_whole(elements(fold.calls[0].inputs), dtype, *program_.group);
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

  bool is_start(int u) const {
    return std::ranges::any_of(started_.buckets, [&](const Bucket& bucket) { return bucket.back() == u; });
  }

  /// Kahn's algorithm, of what is ready the first one first: where nothing was joined the order stays. What runs behind
  /// the shards stands right behind what it waits for, and one start behind the other.
  void reorder() {
    const auto node = [&](int u) { return joined_.contains(u) ? joined_.at(u) : u; };
    // What ends any of them stands behind the last start.
    const auto writer = [&](int u) { return is_start(node(u)) ? started_.buckets.back().back() : node(u); };
    IdVector<int> open(size(), 0), place(size(), -1);
    IdVector<std::vector<int>> readers(size());
    const auto put_behind = [&](int w, int u) {
      readers[w].push_back(u);
      ++open[u];
    };
    for (int u = 0; u < size(); ++u) {
      for (const int w : writers_[u]) put_behind(writer(w), node(u));
    }
    for (std::size_t i = 1; i < started_.buckets.size(); ++i) {
      put_behind(started_.buckets[i - 1].back(), started_.buckets[i].back());
    }
    using Ready = std::pair<int, int>;  // its place, and which
    std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
    const auto add = [&](int u) {
      if (unit(u).behind_shards < 0) place[u] = u;
      ready.emplace(place[u], u);
    };
    for (int u = 0; u < size(); ++u) {
      if (node(u) == u && open[u] == 0) add(u);
    }
    IdVector<Unit> ordered;
    while (!ready.empty()) {
      const int u = ready.top().second;
      ready.pop();
      ordered.add(std::move(units_.units[u]));
      if (is_start(u) && --left_to_start_ == 0) {
        for (Unit& end : ends_) ordered.add(std::move(end));
      }
      for (const int reader : readers[u]) {
        place[reader] = std::max(place[reader], place[u]);
        if (--open[reader] == 0) add(reader);
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
  StartedFolds started_;
  std::vector<Unit> ends_;
  int left_to_start_ = 0;
};

}  // namespace

const Kernel* chunk_kernel(const Program& program, const ir::Primitive& combine, DType dtype, std::int64_t elements) {
  const ArrayType chunk{dtype, Shape{elements}, {}};
  const std::array<ArrayType, 2> operands = {chunk, chunk};
  return program.kernels.get(combine.name, {}, operands, {&chunk, 1});
}

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

Unit fold_blocks_unit(int mesh, const ir::Primitive& combine, Ref from, Ref to) {
  Unit unit = fold_unit(mesh, combine, from, to);
  unit.to_blocks = true;
  unit.calls[0].name = "fold_blocks_across_processes";
  return unit;
}

void join_folds(const Program& program, UnitProgram& units) { FoldJoiner(program, units).run(); }

}  // namespace lockstep::compile
