#pragma once

#include <vector>

#include "engine/compile/make_units.h"

// Wait-free backpropagation (Zhang et al. 2017): folds over the processes that begin while the region still runs that gives
// what they fold.
namespace lockstep::compile {

struct StartedFolds {
  std::vector<std::vector<int>>
      buckets;                ///< Units that fold, by bucket, in the order in which what they fold is final.
  std::size_t in_region = 0;  ///< So many buckets begin in the region, what is left begins right behind it.
  std::vector<int> sums;      ///< Units that give what the former fold from what the shards have.
  int pmap = -1;              ///< Whose region it is.
};

/// Of units that fold, of one op and dtype, what may begin in a region of a map, in buckets of some
/// `Options::bucket_bytes`. None where that makes fewer than two buckets. `writers`: by unit, whose results it reads.
/// Where a map has several devices here, one of them alone makes the sums that begin in the region: that pays for what
/// travels meanwhile, so by messages, and not for the last bucket, which nothing of the region is left to hide.
StartedFolds find_started_folds(const Program& program, const UnitProgram& units,
                                const IdVector<std::vector<int>>& writers, const std::vector<int>& folds);

/// The units of a bucket, joined as if they were one that folds.
struct JoinedFold {
  Unit unit;                                ///< Its one call has all operands and results, and no kernel yet.
  std::vector<ir::Provenance> provenances;  ///< By operand.
};
JoinedFold join_units(const UnitProgram& units, const std::vector<int>& bucket);

/// What becomes of buckets: units that begin them, in their order, and those that end them.
struct SplitFolds {
  std::vector<Unit> starts;
  std::vector<Unit> ends;
};
/// Where there are windows, what ends a fold is tiled as any other sum; else it runs on the caller.
/// The first `in_region` begin in the region of that map.
SplitFolds split_folds(const Program& program, UnitProgram& units, std::vector<JoinedFold> folds, int pmap,
                       std::size_t in_region);

}  // namespace lockstep::compile
