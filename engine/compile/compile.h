#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/precision.h>
#include <lockstep/processes.h>

#include "engine/executable/executable.h"
#include "engine/ir/function.h"

namespace lockstep::compile {

using namespace backend;

using executable::Executable;

using executable::CutSignature;

struct Options {
  std::vector<std::shared_ptr<const Backend>> backends;  ///< In order of preference.
  int threads = 1;                                       ///< Workers that share what stands outside of mapped regions.
  bool verify = false;                                   ///< ir::verify on both sides of every pass.
  bool optimize = true;                                  ///< Whether the passes run.
  bool fuse = true;                                      ///< Whether element-wise ops are fused, where they run.
  Precision precision = Precision::float32;              ///< Of products, where the passes run.
  std::int64_t bucket_bytes = 0;                         ///< Of sums over processes that begin early; 0: none does.
  std::shared_ptr<Processes> processes;                  ///< That share a pmap's shards; null: this one alone.
};

/// The executable of a function: passes, kernels, regions and memory. Nothing is cached. Throws BackendError where no
/// backend has a kernel for an equation, MeshError where the devices do not divide the shards.
std::shared_ptr<const Executable> lower(const ir::FunctionPtr& function, const Options& options);

/// As `lower`, from a process-wide cache keyed by the function's structure and the options. Safe from any thread.
std::shared_ptr<const Executable> compile(const ir::FunctionPtr& function, const Options& options);

/// Entries of the cache, and how often `compile` found one.
struct CacheStatistics {
  std::size_t entries = 0;
  std::size_t hits = 0;
  std::size_t misses = 0;
};
CacheStatistics cache_statistics();

}  // namespace lockstep::compile
