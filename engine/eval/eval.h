#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend/backend.h>

#include "engine/ir/function.h"

namespace lockstep::eval {

using namespace backend;

/// An array of `eval`: type and row-major memory.
struct HostArray {
  ArrayType type;
  std::shared_ptr<Buffer> buffer;
};

/// One equation that `eval` has computed, on one replica.
struct EquationRun {
  const ir::Equation& equation;
  std::span<const HostArray> inputs;
  std::span<const HostArray> outputs;
  std::int64_t replica = 0;
  std::int64_t replicas = 1;
  std::span<const std::int64_t> iterations;  ///< Of the loops it stands in, the outermost first.
};
/// Sees every equation in the order of evaluation, those of sub-functions in place of the equation that holds them.
using EvalObserver = std::function<void(const EquationRun&)>;

/// Evaluates a function equation by equation, shards in step, kernels and memory from `backend`. Sub-functions of pmap
/// are run for all V shards, one equation after the other; collectives are computed between. Slow and plain: the oracle
/// of everything compiled. Throws BackendError where the backend has no kernel.
std::vector<HostArray> eval(const ir::Function& function, std::span<const HostArray> inputs, const Backend& backend,
                            const EvalObserver& observer = nullptr);

/// A row-major array from bytes, in memory of `backend`.
HostArray host_array(const ArrayType& type, std::span<const std::byte> bytes, const Backend& backend);
std::vector<std::byte> host_bytes(const HostArray& array);

}  // namespace lockstep::eval
