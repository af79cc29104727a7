#pragma once

#include <string_view>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/ops.h>

// What losses and metrics make of their operands before they compute anything.
namespace lockstep::nn {

/// As Keras' epsilon: what probabilities stay away from 0 and 1 by, and what percentages are divided by at least.
inline constexpr double smallest = 1e-7;

/// What loss it is, for messages, and its weights.
struct LossCall {
  std::string_view name;
  Array weight;
};

/// In at least float32: narrower dtypes hold neither a sum over many elements nor a square, and of integers without a
/// sign no difference. Complex numbers as they are.
Array wide(const Array& x);

/// Throws DtypeError for complex numbers: converted, they would lose their imaginary part.
void check_real(std::string_view of, std::string_view what, const Array& x);

/// Where weights of a leading shape of x are not 0, with that many dimensions of extent 1 behind; empty where there are
/// no weights, or such of another shape, which are left for `weighted` to refuse.
Array counting(const Array& x, const Array& weight);

/// Predictions or targets with 0 where the weight is 0, before anything is computed of them: what comes back to such a
/// row is 0 by select, not 0 times the derivative there.
Array counted(const Array& x, const Array& weight);

/// The weight of each element: those of a leading shape of x repeated over the rest, in a float dtype; ones where there
/// are none. Throws ShapeError for weights of another shape.
Array element_weights(const LossCall& of, const Array& x);

/// Throws ShapeError unless both have one shape.
void check_equal_shapes(std::string_view of, const Array& predictions, const Array& targets);

/// Predictions and targets of one shape in one wide float dtype, counted. Integer predictions are numbers too, complex
/// ones are refused.
std::pair<Array, Array> number_operands(const LossCall& of, const Array& predictions, const Array& targets);

/// `above` where labels are above 0, else `others`; NaN, value and derivative, where a label is NaN, which is neither.
Array by_label(const Array& labels, const Array& above, const Array& others);

/// Throws ValueError "[of] what is value; it must be `expected`" unless `holds`.
void check_option(bool holds, std::string_view of, std::string_view what, double value, std::string_view expected);

/// All but the first dimension.
Axes all_but_first(const Array& x);

}  // namespace lockstep::nn
