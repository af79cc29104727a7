#include <algorithm>
#include <bit>
#include <string>
#include <thread>

#include <lockstep/processes.h>

#include "engine/train/replica_step.h"

namespace lockstep::train {

Mesh batch_mesh(const DataParallelOptions& options, std::int64_t rows) {
  const Mesh mesh = data_mesh(options.shards, options.devices, rows);
  const std::int64_t processes = world()->size();
  if (processes == 1 || !options.devices.empty()) return mesh;
  const std::int64_t cores = std::max<std::int64_t>(std::thread::hardware_concurrency(), 1);
  const std::int64_t own = std::min(std::max<std::int64_t>(cores / processes, 1), mesh.shards() / processes);
  const auto count = std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(own, 1)));
  return data_mesh(mesh.shards(), devices("cpu:0-" + std::to_string(count - 1)), rows);
}

}  // namespace lockstep::train
