#pragma once

#include <memory>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/element_loop.h>

#include "backends/jit/code_cache.h"

namespace lockstep::backend::jit {

/// What make_loop_kernel makes of a loop some of whose results are sums, or null where it is not taken. The order of their additions is a
/// function of the loop's shape and of the dimensions summed over; docs/reproducibility.md states it.
std::unique_ptr<Kernel> make_sums_kernel(const ElementLoop& loop, const KernelRequest& request, CodeCache& codes);

}  // namespace lockstep::backend::jit
