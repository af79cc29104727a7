// Norms whose squares neither overflow nor vanish.
#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/tree.h>

namespace lockstep::optim {

/// A norm, root * scale. The scale is a power of two that keeps the squares below the root in range: 1 wherever those of the
/// numbers themselves are, so that it changes no bit there. The norm itself may be beyond the dtype.
struct ScaledNorm {
  Array root, scale;
  Array value() const;
};

/// Over all leaves, in at least float32. Rank 0.
ScaledNorm scaled_norm(const Tree& tree);
/// Of one leaf, over all of its elements. Rank 0.
ScaledNorm scaled_norm(const Array& leaf);
/// Of one leaf along dimensions, which stay with extent 1.
ScaledNorm scaled_norm(const Array& leaf, const std::vector<std::int64_t>& dimensions);
/// The root of the mean of one leaf's squares. Rank 0.
ScaledNorm scaled_rms(const Array& leaf);

/// The mean of squares along a dimension, in float64: they may be beyond the dtype of x, which is real.
Array wide_mean_of_squares(const Array& x, std::int64_t dimension);

}  // namespace lockstep::optim
