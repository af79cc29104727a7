#pragma once

#include <lockstep/ops.h>
#include <lockstep/optim.h>

namespace lockstep::optim {

/// In a dtype that holds sums and small numbers: float32 for what is narrower.
inline Array wide(const Array& x) { return convert(x, promote(x.dtype(), float32)); }

/// The norm over all leaves is root * scale; scale is a power of two that keeps the squares below the root in range, 1
/// wherever those of the leaves themselves are. Rank 0.
struct ScaledNorm {
  Array root;
  Array scale;
};
ScaledNorm scaled_norm(const Tree& tree);

}  // namespace lockstep::optim
