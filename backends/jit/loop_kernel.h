#pragma once

#include <memory>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/element_loop.h>

#include "backends/jit/code_cache.h"

namespace lockstep::backend::jit {

/// The kernel of a loop, or null where it has an op, a dtype or a size that is not taken.
std::unique_ptr<Kernel> make_loop_kernel(const ElementLoop& loop, const KernelRequest& request, CodeCache& codes);

}  // namespace lockstep::backend::jit
