#pragma once

#include <optional>

#include <lockstep/backend/grouped_kernels.h>

namespace lockstep::ops {

/// The kernels that a request stands for; nothing for one of a single op.
std::optional<backend::GroupedKernels> grouped_kernels(const backend::KernelRequest& request);

}  // namespace lockstep::ops
