#pragma once

#include <initializer_list>
#include <vector>

#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

/// How the elements of a sample's matrices are drawn.
struct MatrixRange {
  samples::Range range = {-2, 2};
  double diagonal = 0;  ///< SampleInput::diagonal.
};
/// Positive definite if completed symmetrically, well conditioned, spectra far apart.
inline constexpr MatrixRange separated{{-0.4, 0.4}, 1.5};

ir::SampleInput matrix_input(DType dtype, const Shape& shape, const MatrixRange& range);
/// One operand: each shape in each dtype of the matrix ops.
std::vector<ir::Sample> matrix_samples(std::initializer_list<Shape> shapes, const Attrs& attrs,
                                       const MatrixRange& range = {});
/// The dtypes that samples of matrix ops are drawn in.
const std::vector<DType>& matrix_sample_dtypes();

/// What is wrong with one operand of matrices, and `more`.
samples::ErrorSamples matrix_errors(const Attrs& attrs, const std::vector<ir::ErrorSample>& more = {});
/// The same where matrices must be square.
samples::ErrorSamples square_errors(const Attrs& attrs);

}  // namespace lockstep::ops
