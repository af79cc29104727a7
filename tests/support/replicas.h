#pragma once

#include <string>
#include <vector>

#include <lockstep/model.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/train.h>

namespace lockstep::tests {

/// A number of logical shards and of devices that run them.
struct Replicas {
  std::int64_t shards = 1;
  int devices = 1;
};
inline const std::vector<Replicas> replica_counts = {{1, 1}, {2, 1}, {2, 2}, {4, 1}, {4, 2}, {4, 4}};

inline std::vector<Device> cpu_devices(int count) { return devices("cpu:0-" + std::to_string(count - 1)); }

inline DataParallelOptions parallel(const Replicas& replicas) {
  return {.devices = cpu_devices(replicas.devices), .shards = replicas.shards};
}

inline Mesh mesh_of(const Replicas& replicas) {
  return Mesh({{"batch", replicas.shards}}, cpu_devices(replicas.devices));
}

/// (output, new state) of a training or evaluation call whose batch is cut over the replicas.
template <class M>
std::pair<Array, Tree> call_on(const Replicas& replicas, const M& model, const Tree& trainable,
                               const Tree& non_trainable, const Batch& batch, bool training) {
  const auto body = [&](const Tree& w, const Tree& state, const Batch& b) {
    return model.stateless_call(w, state, b.x, training, {.rows = b.weight});
  };
  return pmap(body, {.mesh = mesh_of(replicas),
                     .in = {replicated, replicated, sharded("batch")},
                     .out = {sharded("batch"), replicated}})(trainable, non_trainable, batch);
}

/// Rows that all count.
inline Batch batch_of(const Array& x) {
  const std::int64_t rows = x.dim(0);
  return {x, zeros({rows}), ones({rows})};
}

}  // namespace lockstep::tests
