#include "engine/compile/collectives/started_folds.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <set>
#include <tuple>
#include <utility>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/backend/round_up.h>

#include "engine/executable/started_folds.h"

namespace lockstep::compile {
namespace {

/// Of what is under way at once: its windows, or messages, are kept that long. What is more goes when all is final.
constexpr std::int64_t most_under_way = std::int64_t{64} << 20;

/// What lies in windows is added up by every process, all of it, where there are two or where it has so few bytes; else each
/// adds up its share, and the others wait for it: one meeting more, and less to read.
constexpr std::size_t longest_added_by_all = std::size_t{256} << 10;

std::int64_t bytes_of(const UnitProgram& units, int u) {
  return units.values[units.units[u].calls[0].inputs[0].value].type.nbytes();
}

class StartFinder {
 public:
  StartFinder(const Program& program, const UnitProgram& units, const IdVector<std::vector<int>>& writers)
      : program_(program), units_(units), writers_(writers) {}

  StartedFolds run(const std::vector<int>& folds) {
    std::vector<std::tuple<int, int, std::set<int>>> ready;  // when, which, the sums it folds
    std::int64_t left = most_under_way;
    for (const int u : folds) {
      Operands operands;
      if (unit(u).fence >= 0 || !collect(u, operands) || operands.last < 0 || bytes_of(units_, u) > left) continue;
      left -= bytes_of(units_, u);
      ready.emplace_back(operands.last, u, std::move(operands.sums));
    }
    std::ranges::stable_sort(ready, {}, [](const auto& it) { return std::get<0>(it); });
    StartedFolds result;
    std::vector<std::set<int>> sums;  // by bucket
    std::int64_t bytes = program_.options.bucket_bytes;
    for (const auto& [when, u, of_fold] : ready) {
      if (bytes >= program_.options.bucket_bytes) {
        result.buckets.emplace_back();
        sums.emplace_back();
        bytes = 0;
      }
      result.buckets.back().push_back(u);
      sums.back().insert(of_fold.begin(), of_fold.end());
      bytes += bytes_of(units_, u);
    }
    if (result.buckets.size() < 2) return {};
    result.pmap = unit(result.buckets[0][0]).mesh;
    result.in_region = result.buckets.size() - (has_one_device(result.pmap) ? 0 : 1);
    for (std::size_t i = 1; i < result.in_region; ++i) sums[0].merge(sums[i]);
    result.sums.assign(sums[0].begin(), sums[0].end());
    return result;
  }

 private:
  /// What a fold folds: sums of this process over what units of a region write, up to the last of these.
  struct Operands {
    std::set<int> sums;
    int last = -1;
  };

  const Unit& unit(int u) const { return units_.units[u]; }
  bool has_one_device(int mesh) const { return program_.meshes[mesh].devices == 1; }

  /// False where it waits for something else than a region of the fold's map.
  bool collect(int fold, Operands& operands) const {
    const int mesh = unit(fold).mesh;
    if (mesh < 0) return false;
    if (program_.group->has_windows() && (!has_one_device(mesh) || unit(fold).to_blocks)) return false;
    std::vector<int> open = writers_[fold];
    while (!open.empty()) {
      const int u = open.back();
      open.pop_back();
      const Unit& it = unit(u);
      if (it.pmap == mesh && !it.together) {
        operands.last = std::max(operands.last, u);
        continue;
      }
      const bool is_sum = it.pmap < 0 && !it.together && !it.on_caller && it.fence < 0 && it.collectives.empty();
      if (!is_sum) return false;
      if (operands.sums.insert(u).second) std::ranges::copy(writers_[u], std::back_inserter(open));
    }
    return true;
  }

  const Program& program_;
  const UnitProgram& units_;
  const IdVector<std::vector<int>>& writers_;
};

/// Writes what the folds of one program become.
class FoldSplitter {
 public:
  FoldSplitter(const Program& program, UnitProgram& units, int pmap, std::size_t in_region)
      : program_(program), units_(units), pmap_(pmap), in_region_(in_region) {}

  SplitFolds run(std::vector<JoinedFold> folds) {
    SplitFolds result;
    std::vector<Unit> lasts;
    if (program_.group->has_windows()) {
      split_into_tiles(folds, result, lasts);
    } else {
      for (const JoinedFold& fold : folds) lasts.push_back(split(fold, place(fold), result));
    }
    std::ranges::move(lasts, std::back_inserter(result.ends));
    return result;
  }

 private:
  DType dtype_of(const Unit& fold) const { return units_.values[fold.calls[0].inputs[0].value].type.dtype; }
  std::int64_t elements_of(const Unit& fold) const {
    std::int64_t sum = 0;
    for (const Ref& ref : fold.calls[0].inputs) sum += units_.values[ref.value].type.size();
    return sum;
  }

  StartedFold place(const JoinedFold& fold) const {
    constexpr std::int64_t granule = 64;  // parts begin where a vector of any dtype may
    const DType dtype = dtype_of(fold.unit);
    const std::int64_t part = ceil_div(elements_of(fold.unit), static_cast<std::int64_t>(program_.processes));
    const std::int64_t block = fold.unit.to_blocks ? part : round_up(part, granule);
    return {program_.group, dtype, static_cast<std::size_t>(block) * size_of(dtype), fold.unit.to_blocks};
  }

  int new_bytes(std::int64_t count) { return units_.new_value({DType::uint8, Shape{count}, {}}, -1); }

  /// The unit that begins a fold: `result` is what it gives.
  Unit start_unit(const Unit& fold, std::unique_ptr<Kernel> kernel, const char* name, int result) {
    Unit unit = fold;
    unit.collectives.clear();
    unit.folds = nullptr;
    unit.to_blocks = false;
    if (started_++ < in_region_) unit.behind_shards = pmap_;
    unit.writes = {result};
    unit.calls[0].kernel = program_.kernels.adopt(std::move(kernel));
    unit.calls[0].name = name;
    unit.calls[0].outputs = {{result, -1}};
    return unit;
  }

  /// Operands lie in the windows of all processes, one behind the other. `lasts`: what stands behind all other ends.
  void split_into_tiles(const std::vector<JoinedFold>& folds, SplitFolds& to, std::vector<Unit>& lasts) {
    std::vector<std::vector<std::size_t>> places;
    for (const JoinedFold& fold : folds) {
      std::vector<std::size_t>& of_fold = places.emplace_back();
      for (const Ref& ref : fold.unit.calls[0].inputs) {
        of_fold.push_back(all_);
        all_ += round_up(units_.values[ref.value].nbytes(), backend::buffer_alignment);
      }
    }
    units_.window_bytes = all_;
    for (std::size_t i = 0; i < folds.size(); ++i) {
      for (std::size_t k = 0; k < places[i].size(); ++k) {
        const Ref& ref = folds[i].unit.calls[0].inputs[k];
        if (may_be_written_there(ref)) units_.values[ref.value].in_window = static_cast<std::int64_t>(places[i][k]);
      }
      split_into_tiles(folds[i], places[i], to, lasts);
    }
  }

  bool is_added_by_all() const { return program_.processes == 2 || all_ <= longest_added_by_all; }

  /// Whether an operand has memory of its own that once a process is written alone.
  bool may_be_written_there(const Ref& ref) const {
    const StoredValue& value = units_.values[ref.value];
    if (value.root != ref.value || value.memory != Memory::own || value.pmap >= 0 || value.in_window >= 0) return false;
    if (ref.shard >= 0 || value.cut >= 0 || value.offset != 0 || !value.is_contiguous()) return false;
    if (std::ranges::any_of(units_.outputs, [&](int output) { return units_.root(output) == ref.value; })) return false;
    const auto reads = [&](const Unit& it) { return std::ranges::find(it.reads, ref.value) != it.reads.end(); };
    if (!is_added_by_all() && std::ranges::count_if(units_.units, reads) != 1) return false;  // sums take their place
    const auto writes = [&](const Unit& it) { return std::ranges::find(it.writes, ref.value) != it.writes.end(); };
    return std::ranges::count_if(units_.units, writes) == 1 &&
           std::ranges::none_of(units_.units, [&](const Unit& it) { return it.pmap >= 0 && writes(it); });
  }

  void split_into_tiles(const JoinedFold& fold, const std::vector<std::size_t>& places, SplitFolds& to,
                        std::vector<Unit>& lasts) {
    const UnitCall& call = fold.unit.calls[0];
    const DType dtype = dtype_of(fold.unit);
    int given = new_given(call.inputs.size());
    to.starts.push_back(start_unit(fold.unit, std::make_unique<PutIntoWindow>(program_.group, dtype, places, all_),
                                   "put_into_window", given));
    std::vector<std::vector<int>> owners;
    if (!is_added_by_all()) {
      owners = deal(call.inputs);
      const int put = std::exchange(given, new_given(call.inputs.size()));
      to.ends.push_back(fold_dealt_tiles(fold, places, owners, put, given));
    }
    // Read whole by each tile.
    const int for_tiles = units_.new_view(given, units_.values[given].type, {}, 0, -1);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      const Ref from = call.inputs[i], sum = call.outputs[i];
      const std::int64_t size = units_.values[from.value].type.size();
      Unit end;
      end.mesh = fold.unit.mesh;
      end.provenance = fold.provenances[i];
      end.tiled = size < tile_elements ? 0 : size;
      const auto kernel = [&](std::int64_t elements) -> const Kernel* {
        if (is_added_by_all()) {
          return program_.kernels.adopt(
              std::make_unique<FoldWithWindow>(program_.group, tile_fold(fold, elements), i, places[i]));
        }
        return program_.kernels.adopt(
            std::make_unique<TakeFromWindow>(program_.group, i, places[i], owners[i], tile_elements * size_of(dtype)));
      };
      const std::int64_t rest = end.tiled % tile_elements;
      end.calls.push_back({kernel(end.tiled == 0 ? size : tile_elements),
                           rest == 0 ? nullptr : kernel(rest),
                           {from, {for_tiles, -1}},
                           {sum},
                           is_added_by_all() ? "fold_with_window" : "take_from_window"});
      end.reads = {units_.root(from.value), given};
      end.writes = {units_.root(sum.value)};
      if (i + 1 == call.inputs.size()) end.collectives = fold.unit.collectives;
      lasts.push_back(std::move(end));
    }
  }

  int new_given(std::size_t operands) {
    return units_.new_value({DType::int64, Shape{PutIntoWindow::given(program_.processes, operands)}, {}}, -1);
  }

  TileFold tile_fold(const JoinedFold& fold, std::int64_t elements) const {
    const DType dtype = dtype_of(fold.unit);
    return {program_.processes, dtype, elements, chunk_kernel(program_, *fold.unit.folds, dtype, elements)};
  }

  /// Of each operand's tiles, who adds them up: the process that has the fewest bytes so far, the same in all processes.
  std::vector<std::vector<int>> deal(const std::vector<Ref>& operands) {
    dealt_.resize(static_cast<std::size_t>(program_.processes));
    std::vector<std::vector<int>> owners;
    for (const Ref& ref : operands) {
      std::vector<int>& of_operand = owners.emplace_back();
      const ArrayType& type = units_.values[ref.value].type;
      for (std::int64_t first = 0; first == 0 || first < type.size(); first += tile_elements) {
        const auto least = std::ranges::min_element(dealt_);
        of_operand.push_back(static_cast<int>(least - dealt_.begin()));
        *least += std::min(type.size() - first, tile_elements) * static_cast<std::int64_t>(size_of(type.dtype));
      }
    }
    return owners;
  }

  Unit fold_dealt_tiles(const JoinedFold& fold, const std::vector<std::size_t>& places,
                        const std::vector<std::vector<int>>& owners, int put, int given) {
    const DType dtype = dtype_of(fold.unit);
    std::vector<FoldDealtTiles::Tile> tiles;
    for (std::size_t i = 0; i < places.size(); ++i) {
      const std::int64_t size = units_.values[fold.unit.calls[0].inputs[i].value].type.size();
      for (std::size_t t = 0; t < owners[i].size(); ++t) {
        if (owners[i][t] != program_.process) continue;
        const std::int64_t first = static_cast<std::int64_t>(t) * tile_elements;
        tiles.push_back({places[i] + static_cast<std::size_t>(first) * size_of(dtype),
                         tile_fold(fold, std::min(size - first, tile_elements))});
      }
    }
    const auto bytes = static_cast<std::size_t>(elements_of(fold.unit)) * size_of(dtype);
    Unit unit;
    unit.mesh = fold.unit.mesh;
    unit.on_caller = true;
    unit.provenance = fold.unit.provenance;
    unit.calls.push_back(
        {program_.kernels.adopt(std::make_unique<FoldDealtTiles>(program_.group, dtype, std::move(tiles), bytes)),
         nullptr,
         {{put, -1}},
         {{given, -1}},
         "fold_dealt_tiles"});
    unit.reads = {put};
    unit.writes = {given};
    return unit;
  }

  /// Appends what begins it and what adds it up, as far as that is not the end; what ends it is returned.
  Unit split(const JoinedFold& fold, const StartedFold& place, SplitFolds& to) {
    const int started = new_bytes(place.started_bytes());
    to.starts.push_back(start_unit(fold.unit, std::make_unique<StartFold>(place), "start_fold", started));
    const std::int64_t block = static_cast<std::int64_t>(place.block / size_of(place.dtype));
    const auto cut = FoldCut::of_blocks(block, place.dtype, *program_.group);
    const ChunkKernels kernels = chunk_kernels(program_, *fold.unit.folds, cut);
    Unit end;
    end.mesh = fold.unit.mesh;
    end.on_caller = true;
    end.provenance = fold.unit.provenance;
    end.writes = fold.unit.writes;
    end.collectives = fold.unit.collectives;
    if (place.to_blocks) {
      end.calls.push_back({program_.kernels.adopt(std::make_unique<EndBlocks>(place, cut, kernels)),
                           nullptr,
                           {{started, -1}},
                           fold.unit.calls[0].outputs,
                           "end_blocks"});
      end.reads = {started};
      return end;
    }
    const int folded = new_bytes(place.folded_bytes());
    Unit parts;
    parts.mesh = fold.unit.mesh;
    parts.on_caller = true;
    parts.provenance = fold.unit.provenance;
    const Kernel* const add = program_.kernels.adopt(std::make_unique<FoldParts>(place, cut, kernels));
    parts.calls.push_back({add, nullptr, {{started, -1}}, {{folded, -1}}, "fold_parts"});
    parts.reads = {started};
    parts.writes = {folded};
    to.ends.push_back(std::move(parts));
    end.calls.push_back({program_.kernels.adopt(std::make_unique<EndFold>(place)),
                         nullptr,
                         {{started, -1}, {folded, -1}},
                         fold.unit.calls[0].outputs,
                         "end_fold"});
    end.reads = {started, folded};
    return end;
  }

  const Program& program_;
  UnitProgram& units_;
  int pmap_;
  std::size_t in_region_;
  std::size_t started_ = 0;
  std::size_t all_ = 0;
  std::vector<std::int64_t> dealt_;  ///< Bytes, by process.
};

}  // namespace

StartedFolds find_started_folds(const Program& program, const UnitProgram& units,
                                const IdVector<std::vector<int>>& writers, const std::vector<int>& folds) {
  if (program.options.bucket_bytes <= 0 || !program.is_called) return {};
  return StartFinder(program, units, writers).run(folds);
}

JoinedFold join_units(const UnitProgram& units, const std::vector<int>& bucket) {
  JoinedFold joined{units.units[bucket.back()], {}};
  Unit& unit = joined.unit;
  unit.calls[0].inputs.clear();
  unit.calls[0].outputs.clear();
  unit.reads.clear();
  unit.writes.clear();
  unit.collectives.clear();
  for (const int u : bucket) {
    const Unit& it = units.units[u];
    std::ranges::copy(it.calls[0].inputs, std::back_inserter(unit.calls[0].inputs));
    std::ranges::copy(it.calls[0].outputs, std::back_inserter(unit.calls[0].outputs));
    std::ranges::copy(it.reads, std::back_inserter(unit.reads));
    std::ranges::copy(it.writes, std::back_inserter(unit.writes));
    std::ranges::copy(it.collectives, std::back_inserter(unit.collectives));
    joined.provenances.push_back(it.provenance);
  }
  return joined;
}

SplitFolds split_folds(const Program& program, UnitProgram& units, std::vector<JoinedFold> folds, int pmap,
                       std::size_t in_region) {
  return FoldSplitter(program, units, pmap, in_region).run(std::move(folds));
}

}  // namespace lockstep::compile
