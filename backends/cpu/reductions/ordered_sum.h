#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// A reduce_sum over one axis with the attribute `sum_blocks`, of float32 or float64, whose bits depend on that axis alone:
/// it is cut into that many equal blocks, a power of two, which are joined in pairs, S(0, n) with S(a, b) = S(a, m) +
/// S(m, b). Within a block, from +0: where the axis is not the last one, one by one; else those with the
/// same number modulo 16 one by one, then sums number i and i + 8 are added, those number i and i + 4, and so on to one.
/// Null for other dtypes.
std::unique_ptr<Kernel> make_ordered_sum(const KernelRequest& request);

}  // namespace lockstep::backend::cpu
