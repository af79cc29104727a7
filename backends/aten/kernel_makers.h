#pragma once

#include <memory>
#include <string_view>

#include <lockstep/backend/backend.h>

#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::aten {

using namespace cpu;

/// One maker per line of kernels.def. It reads the attributes, once, and returns null for types it has no kernel for.
namespace kernels {
#define LOCKSTEP_KERNEL(op) std::unique_ptr<Kernel> op(const KernelRequest& request);
#include "backends/aten/kernels.def"
#undef LOCKSTEP_KERNEL
}  // namespace kernels

/// Null where there is no kernel of that op.
KernelMaker find_maker(std::string_view op);

}  // namespace lockstep::backend::aten
