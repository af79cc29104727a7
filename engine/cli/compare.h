#pragma once

#include <string>
#include <vector>

#include "engine/cli/run_record.h"

namespace lockstep::cli {

/// What differs between two runs.
struct Comparison {
  std::vector<std::string> lines;  ///< To be printed.
  bool is_equal = true;            ///< No bit of what both have written differs.
  bool has_compared = false;       ///< There is a step of which both have written something.
};

/// Manifests entry by entry; the first step whose metrics differ; the first step and variable whose bits differ, by the
/// steps of `--trace-bits` where both have them, else by the checkpoints that both have. Times and rates are no bits.
/// Throws DataError and CheckpointError for what cannot be read.
Comparison compare(const RunRecord& a, const RunRecord& b);

}  // namespace lockstep::cli
