#pragma once

#include <functional>
#include <initializer_list>
#include <vector>

#include "engine/ir/primitive.h"

// Families of samples: what an op is tested and measured on.
namespace lockstep::ops::samples {

using ir::ErrorSample;
using ir::Sample;
using ir::SampleInput;
using Samples = std::function<std::vector<Sample>()>;
using ErrorSamples = std::function<std::vector<ErrorSample>()>;

/// Interval operands are drawn from.
struct Range {
  double low = -2;
  double high = 2;
  bool distinct = false;
};

SampleInput input(DType dtype, const Shape& shape, Range range = {});
/// As `input`, without ties or near neighbours: for kinks (max, abs, rounding).
SampleInput distinct(DType dtype, const Shape& shape, double low = -2, double high = 2);
/// Rank 0, 1 and 2, with extents 0 and 1 among them.
const std::vector<Shape>& small_shapes();

inline constexpr std::initializer_list<DType> floats = {DType::float64, DType::float32};
inline constexpr std::initializer_list<DType> all_floats = {DType::float64, DType::float32, DType::float16,
                                                            DType::bfloat16};
inline constexpr std::initializer_list<DType> complexes = {DType::complex128, DType::complex64};

/// One operand per range, all of one dtype and shape: each dtype with each of small_shapes().
Samples elementwise(std::vector<Range> ranges, std::vector<DType> dtypes = floats);
Samples unary(double low, double high, std::vector<DType> dtypes = floats);
/// Floats from [low, high), and complex numbers with both parts from there.
Samples inexact(double low, double high, std::vector<DType> floating = floats);
/// The samples of several families, one after the other.
Samples both(Samples first, Samples second);
/// A fixed list.
Samples list(std::vector<Sample> samples);
ErrorSamples errors(std::vector<ErrorSample> samples);
/// What is wrong with every pointwise op: another dtype, and for more operands unequal shapes and dtypes.
ErrorSamples elementwise_errors(std::size_t operands, DType legal, DType illegal);

// Types of operands: an index, 3 floats, 2 x 3 floats.
inline const ArrayType int32_scalar{DType::int32, Shape{}, {}};
inline const ArrayType float32_vector{DType::float32, Shape{3}, {}};
inline const ArrayType float32_matrix{DType::float32, Shape{2, 3}, {}};

}  // namespace lockstep::ops::samples
