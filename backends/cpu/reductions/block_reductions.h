#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// Reductions of floats in loops of their own. Null where other axes stand between those that are reduced, but for sums of
/// float32 and float64.
std::unique_ptr<Kernel> make_block_sum(const KernelRequest& request);
/// NaN where an element is; -infinity or infinity of no elements.
std::unique_ptr<Kernel> make_block_max(const KernelRequest& request);
std::unique_ptr<Kernel> make_block_min(const KernelRequest& request);

}  // namespace lockstep::backend::cpu
