#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// A dot_general with the attribute `sum_blocks`, whose bits depend on what is summed alone and not on the other extents:
/// the contracted dimensions, as one in the order of `contract`, are cut into that many equal blocks, a power of two; each
/// is added up from +0 in ascending order by fused multiply-adds, and blocks are joined in pairs, S(0, n) with S(a, b) =
/// S(a, m) + S(m, b). 16-bit floats are computed in float32 and rounded once. Null for other dtypes than floats.
std::unique_ptr<Kernel> make_ordered_product(const KernelRequest& request);

}  // namespace lockstep::backend::cpu
