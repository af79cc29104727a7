#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

#include "backends/cpu/function_kernel.h"

namespace lockstep::backend::aten {

using namespace cpu;

using KernelMaker = std::unique_ptr<Kernel> (*)(const KernelRequest&);

/// One maker per line of kernels.def. It reads the attributes, once, and returns null for requests it has no kernel for.
namespace kernels {
#define LOCKSTEP_KERNEL(op, elements) std::unique_ptr<Kernel> op(const KernelRequest& request);
#include "backends/aten/kernels.def"
#undef LOCKSTEP_KERNEL
}  // namespace kernels

/// Null where ATen has no kernel of that op and dtype.
KernelMaker find_maker(const KernelRequest& request);

}  // namespace lockstep::backend::aten
