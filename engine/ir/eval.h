#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/backend.h>

#include "engine/ir/function.h"

namespace lockstep::ir {

/// An array of `eval`: type and row-major memory.
struct HostArray {
  ArrayType type;
  std::shared_ptr<Buffer> buffer;
};

/// Evaluates a function equation by equation, shards in step, kernels and memory from `backend`. Sub-functions of pmap
/// are run for all V shards, one equation after the other; collectives are computed between. Slow and plain: the oracle
/// of everything compiled. Throws BackendError where the backend has no kernel.
std::vector<HostArray> eval(const Function& function, std::span<const HostArray> inputs, const Backend& backend);

/// A row-major array from bytes, in memory of `backend`.
HostArray host_array(const ArrayType& type, std::span<const std::byte> bytes, const Backend& backend);
std::vector<std::byte> host_bytes(const HostArray& array);

}  // namespace lockstep::ir
