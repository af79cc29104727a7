#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/attrs.h>
#include <lockstep/export.h>
#include <lockstep/out_of_line.h>

namespace lockstep {

using Axes = std::vector<std::int64_t>;  ///< Dimensions, negative ones counted from the end; also extents.

/// The axes that an op works along: one, as in sum(x, 1), several, as in sum(x, {0, 1}), or, where none are named, all.
struct LOCKSTEP_API OptionalAxes : std::optional<Axes> {
  OptionalAxes();
  OptionalAxes(const OptionalAxes& other);
  OptionalAxes(OptionalAxes&& other) noexcept;
  OptionalAxes& operator=(const OptionalAxes& other);
  OptionalAxes& operator=(OptionalAxes&& other) noexcept;
  ~OptionalAxes();
  OptionalAxes(std::nullopt_t);
  OptionalAxes(std::optional<Axes> axes);
  OptionalAxes(Axes axes);
  OptionalAxes(std::initializer_list<std::int64_t> axes);
  template <std::integral Axis>
  requires(!std::same_as<Axis, bool>) OptionalAxes(Axis axis) : OptionalAxes(static_cast<std::int64_t>(axis), One()) {}

 private:
  struct One {};
  OptionalAxes(std::int64_t axis, One one);
};

// ---- the element-wise ops of ops.def ---------------------------------------------------------------------------------
// ops.def says of each what it computes. Operands are promoted to one dtype and broadcast as in numpy. Integers and
// bool become float32 where the function is one of floats; ceil, floor, round and stop_gradient give them back as they
// are, and integers stay integers in abs, neg, sign, add, sub, mul, div, rem, maximum and minimum. `div` truncates
// integers, operator/ divides truly. Complex numbers are taken by the arithmetic, exponential, trigonometric and
// hyperbolic ones and by equal and not_equal, but not by rem, what orders, rounds or works on bits, nor by atan2, cbrt,
// exp2, fma, log2 and the special functions. Throws ShapeError where shapes do not broadcast, DtypeError where the op
// does not take the dtype, ValueError for an integer scalar that the dtype cannot hold. Of bool, add is or and mul is
// and.
#define LOCKSTEP_FORM_unary(name) LOCKSTEP_API Array name(const Operand& x);
#define LOCKSTEP_FORM_binary(name) LOCKSTEP_API Array name(const Operand& a, const Operand& b);
#define LOCKSTEP_FORM_comparison(name) LOCKSTEP_API Array name(const Operand& a, const Operand& b);
#define LOCKSTEP_FORM_ternary(name) LOCKSTEP_API Array name(const Operand& a, const Operand& b, const Operand& c);
#define LOCKSTEP_FORM_general(name)
#define LOCKSTEP_OP(name, form) LOCKSTEP_FORM_##form(name)
#include <lockstep/ops.def>
#undef LOCKSTEP_OP
#undef LOCKSTEP_FORM_general

/// Every primitive as it is: no promotion, no broadcasting. Attributes are documented in ops.def.
namespace lax {
#define LOCKSTEP_FORM_general(name) \
  LOCKSTEP_API std::vector<Array> name(const ArrayOperands& operands, const Attrs& attrs);  ///< See ops.def.
#undef LOCKSTEP_FORM_unary
#undef LOCKSTEP_FORM_binary
#undef LOCKSTEP_FORM_comparison
#undef LOCKSTEP_FORM_ternary
#define LOCKSTEP_FORM_unary(name) LOCKSTEP_FORM_general(name)
#define LOCKSTEP_FORM_binary(name) LOCKSTEP_FORM_general(name)
#define LOCKSTEP_FORM_comparison(name) LOCKSTEP_FORM_general(name)
#define LOCKSTEP_FORM_ternary(name) LOCKSTEP_FORM_general(name)
#define LOCKSTEP_OP(name, form) LOCKSTEP_FORM_##form(name)
#include <lockstep/ops.def>
#undef LOCKSTEP_OP
#undef LOCKSTEP_FORM_unary
#undef LOCKSTEP_FORM_binary
#undef LOCKSTEP_FORM_comparison
#undef LOCKSTEP_FORM_ternary
#undef LOCKSTEP_FORM_general
}  // namespace lax

/// `add`. Numbers alone that a program does not know yet (weak_types.h) are computed with in float64, as C++ does, by
/// all arithmetic and comparisons here.
LOCKSTEP_API Array operator+(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator-(const Operand& a, const Operand& b);  ///< `sub`; bool throws DtypeError.
LOCKSTEP_API Array operator*(const Operand& a, const Operand& b);  ///< `mul`.
/// True division: integers give float32 (as jax.numpy.true_divide).
LOCKSTEP_API Array operator/(const Operand& a, const Operand& b);
/// `remainder` (elementwise.h), with the sign of b, as jax.numpy has it.
LOCKSTEP_API Array operator%(const Operand& a, const Operand& b);
/// x = x + y, as in JAX: the variable gets a new value, and other copies of the old one stay as they are. The shape and the
/// dtype may change.
LOCKSTEP_API Array& operator+=(Array& x, const Operand& y);
LOCKSTEP_API Array& operator-=(Array& x, const Operand& y);  ///< x = x - y.
LOCKSTEP_API Array& operator*=(Array& x, const Operand& y);  ///< x = x * y.
LOCKSTEP_API Array& operator/=(Array& x, const Operand& y);  ///< x = x / y.
LOCKSTEP_API Array& operator%=(Array& x, const Operand& y);  ///< x = x % y.
LOCKSTEP_API Array operator-(const Array& x);                ///< `neg`: unsigned integers wrap; bool throws DtypeError.
/// bool; false where either is NaN, as all orders here. Complex numbers throw DtypeError.
LOCKSTEP_API Array operator<(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator<=(const Operand& a, const Operand& b);  ///< Likewise.
LOCKSTEP_API Array operator>(const Operand& a, const Operand& b);   ///< Likewise.
LOCKSTEP_API Array operator>=(const Operand& a, const Operand& b);  ///< Likewise.
/// bool, element by element; false where either is NaN. Complex numbers too; keys throw DtypeError.
LOCKSTEP_API Array operator==(const Array& a, const Array& b);
LOCKSTEP_API Array operator!=(const Array& a, const Array& b);    ///< True where either is NaN.
LOCKSTEP_API Array operator==(const Array& a, const Operand& b);  ///< With a number.
LOCKSTEP_API Array operator!=(const Array& a, const Operand& b);  ///< With a number.
LOCKSTEP_API Array operator==(const Operand& a, const Array& b);  ///< With a number.
LOCKSTEP_API Array operator!=(const Operand& a, const Array& b);  ///< With a number.
/// Bits of integers, truth of bool; floats throw DtypeError, here and below.
LOCKSTEP_API Array operator&(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator|(const Operand& a, const Operand& b);  ///< bitwise_or.
LOCKSTEP_API Array operator^(const Operand& a, const Operand& b);  ///< bitwise_xor.
LOCKSTEP_API Array operator~(const Array& x);                      ///< bitwise_not: of bool, not.

// ---- making arrays ---------------------------------------------------------------------------------------------------
/// All elements `scalar`, or an array broadcast to the shape, as `dtype`. Throws ShapeError where it does not
/// broadcast, ValueError for a scalar whose whole part an integer dtype cannot hold (fractions are cut off).
LOCKSTEP_API Array full(const Shape& shape, const Operand& scalar, DType dtype = float32);
/// All 0; false of bool.
LOCKSTEP_API Array zeros(const Shape& shape, DType dtype = float32,
                         const detail::CallSite& at = detail::SourceLocation::current());
/// All 1; true of bool.
LOCKSTEP_API Array ones(const Shape& shape, DType dtype = float32,
                        const detail::CallSite& at = detail::SourceLocation::current());
/// As `full`, of the shape and dtype of `like`.
LOCKSTEP_API Array full_like(const ArrayOperand& like, const Operand& scalar);
LOCKSTEP_API Array zeros_like(const ArrayOperand& like);  ///< All 0, shape and dtype of `like`.
LOCKSTEP_API Array ones_like(const ArrayOperand& like);   ///< All 1, shape and dtype of `like`.
/// 0, 1, ..., n-1; see manipulation.h for start, stop and step.
LOCKSTEP_API Array arange(std::int64_t n, DType dtype = int32,
                          const detail::CallSite& at = detail::SourceLocation::current());
/// Each element its own index along dimension `dim`. Throws ShapeError for one that there is not.
LOCKSTEP_API Array iota(const Shape& shape, std::int64_t dim, DType dtype = int32,
                        const detail::CallSite& at = detail::SourceLocation::current());
/// The identity matrix, [n, n].
LOCKSTEP_API Array eye(std::int64_t n, DType dtype = float32,
                       const detail::CallSite& at = detail::SourceLocation::current());

// ---- types and choice ------------------------------------------------------------------------------------------------
/// x as another dtype: floats to integers truncate and saturate, NaN to 0; integers wrap; complex numbers keep their
/// real part; to bool, all but 0 is true. Ends a weak type. Throws DtypeError to and from keys.
LOCKSTEP_API Array convert(const ArrayOperand& x, DType dtype);
/// The same bits as another float or integer dtype: to a narrower one with a last dimension more, to a wider one with
/// one less, low bits first. Throws DtypeError for other dtypes, ShapeError where the last dimension is not as many as
/// make one.
LOCKSTEP_API Array bitcast_convert(const ArrayOperand& x, DType dtype);
/// `on_true` where the predicate holds; broadcast and promoted.
LOCKSTEP_API Array where(const ArrayOperand& predicate, const Operand& on_true, const Operand& on_false);
/// minimum(maximum(x, low), high), promoted to one dtype: NaN stays, `high` where low is above it; x shares the
/// derivative with a limit that it equals.
LOCKSTEP_API Array clip(const ArrayOperand& x, const Operand& low, const Operand& high);
LOCKSTEP_API Array square(const ArrayOperand& x);  ///< x x, integers wrapping; of bool int32.

// ---- shape; starts of a dynamic slice are clamped so that it fits, negative ones count from the end -----------------
/// Elements in row-major order under other extents, one of which may be -1: what the others leave. Throws ShapeError
/// where there are not as many elements.
LOCKSTEP_API Array reshape(const ArrayOperand& x, const std::vector<std::int64_t>& shape);
/// To the shape of another array: reshape(x, y.shape()). A template, so that {2, 3} is the list above.
template <std::same_as<Shape> S>
Array reshape(const ArrayOperand& x, const S& shape) {
  return reshape(x, shape.to_vector());
}
/// Dimension i of the result is permutation[i] of x. Throws ShapeError unless each is named once.
LOCKSTEP_API Array transpose(const ArrayOperand& x, const Axes& permutation);
/// The order of the dimensions reversed.
LOCKSTEP_API Array transpose(const ArrayOperand& x);
/// The axis `from` moved to the place `to` of the result; the others keep their order.
LOCKSTEP_API Array moveaxis(const ArrayOperand& x, std::int64_t from, std::int64_t to);
LOCKSTEP_API Array swapaxes(const ArrayOperand& x, std::int64_t a, std::int64_t b);  ///< Two axes exchanged.
/// A dimension of extent 1 put at place `axis` of the result, of rank + 1.
LOCKSTEP_API Array expand_dims(const ArrayOperand& x, std::int64_t axis);
/// Without those axes, which must have extent 1 (else ShapeError).
LOCKSTEP_API Array squeeze(const ArrayOperand& x, const Axes& axes);
template <std::integral Axis>
Array squeeze(const ArrayOperand& x, Axis axis) {
  return squeeze(x, Axes{static_cast<std::int64_t>(axis)});
}
/// All dimensions but the first merged. Throws ShapeError for a scalar.
LOCKSTEP_API Array flatten(const ArrayOperand& x);
/// x repeated along new leading dimensions and those of extent 1. Throws ShapeError where the shapes do not fit.
LOCKSTEP_API Array broadcast_to(const ArrayOperand& x, const Shape& shape);
/// Joined along an axis, promoted to one dtype. Throws ShapeError for scalars and for shapes that differ but along the
/// axis, ValueError for no array.
LOCKSTEP_API Array concatenate(const ArrayOperands& arrays, std::int64_t axis = 0);
/// Joined along a new axis at place `axis` of the result, promoted to one dtype. Throws ShapeError unless all have one
/// shape, ValueError for no array.
LOCKSTEP_API Array stack(const ArrayOperands& arrays, std::int64_t axis = 0);
/// That many parts of equal extent along an axis. Throws ShapeError where they do not divide it; array_split does not.
LOCKSTEP_API std::vector<Array> split(const ArrayOperand& x, std::int64_t parts, std::int64_t axis);
/// Elements start, start + stride, ... below limit of every dimension; strides are 1 unless given. Nothing counts from
/// the end: throws ShapeError unless 0 <= start <= limit <= extent and strides are 1 or more, with one entry for each
/// dimension.
LOCKSTEP_API Array slice(const ArrayOperand& x, const Axes& start, const Axes& limit, const Axes& strides = {});
/// Elements [start, limit) of one axis.
LOCKSTEP_API Array slice_in_dim(const ArrayOperand& x, std::int64_t start, std::int64_t limit, std::int64_t axis);
/// A slice of extents `sizes` from `start` on, one integer scalar for each dimension. Throws ShapeError for a size
/// above the extent.
LOCKSTEP_API Array dynamic_slice(const ArrayOperand& x, const ArrayOperands& start, const Axes& sizes);
/// `value`, in the dtype of x, low[d] times before and high[d] times behind dimension d; negative ones crop. Throws
/// ShapeError where that is more than there is, or without an entry for each dimension.
LOCKSTEP_API Array pad(const ArrayOperand& x, const Operand& value, const Axes& low, const Axes& high);
/// Elements in reverse order along the axes. Throws ShapeError for one named twice.
LOCKSTEP_API Array reverse(const ArrayOperand& x, const Axes& axes);

// ---- reductions: no axes means all; negative axes count from the end -------------------------------------------------
// sum and prod of bool, int8 and int16 give int32, of uint8 and uint16 uint32; means of integers give float32. `keep`
// leaves reduced dimensions with extent 1. All throw ShapeError for an axis that there is not, or is named twice.
/// The sum; 0 of no elements.
LOCKSTEP_API Array sum(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The product; 1 of no elements.
LOCKSTEP_API Array prod(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The largest element: NaN where one is; equal ones share the derivative. Of no elements -inf, or the dtype's least
/// value. Complex numbers throw DtypeError.
LOCKSTEP_API Array max(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The least element, likewise; of no elements inf, or the largest value.
LOCKSTEP_API Array min(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The sum in at least float32 over the number of elements; NaN of none.
LOCKSTEP_API Array mean(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// Biased (divided by n), in two passes; float16 and bfloat16 are widened to float32 inside, as in `mean`.
LOCKSTEP_API Array var(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// Whether all elements are true, or not 0 (NaN is not): bool, true of none.
LOCKSTEP_API Array all(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// Whether any element is true, or not 0: bool, false of none.
LOCKSTEP_API Array any(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// log(sum(exp(x))) without overflow, in at least float32; -inf of no elements, and of -inf alone. Complex numbers
/// throw DtypeError.
LOCKSTEP_API Array logsumexp(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// The position of the largest element along the axis, the first one of equal ones; NaN is beyond every number. int32
/// or int64 (DtypeError for another dtype, and for complex x); ShapeError where there is no element.
LOCKSTEP_API Array argmax(const ArrayOperand& x, std::int64_t axis, DType dtype = int32);
/// Of the least one, likewise; NaN is below every number.
LOCKSTEP_API Array argmin(const ArrayOperand& x, std::int64_t axis, DType dtype = int32);
/// The k largest values along the last axis, descending, and their int32 indices, the first of equal ones first; NaN
/// counts as largest. Throws ShapeError for k outside [0, extent], DtypeError for bool and complex numbers.
LOCKSTEP_API std::pair<Array, Array> top_k(const ArrayOperand& x, std::int64_t k);

// ---- products and indexing -------------------------------------------------------------------------------------------
namespace detail {
LOCKSTEP_API extern const std::pair<Axes, Axes> no_batch;  ///< No dimensions.
}  // namespace detail
/// Sums of products over the dimensions `contract`, of a and of b in pairs, for each index of the `batch` ones: [batch,
/// the rest of a, the rest of b], in the promoted dtype. Negative dimensions count from the end. Throws ShapeError
/// where extents differ or a dimension is named twice, DtypeError for bool. (jax.lax.dot_general)
LOCKSTEP_API Array dot_general(const ArrayOperand& a, const ArrayOperand& b, const std::pair<Axes, Axes>& contract,
                               const std::pair<Axes, Axes>& batch = detail::no_batch);
/// numpy.matmul: the last two dimensions, the others broadcast; vectors as numpy treats them.
LOCKSTEP_API Array matmul(const ArrayOperand& a, const ArrayOperand& b);
/// Rows table[i], [I..., ...]: take(table, indices, 0). Negative indices count from the end, those outside read NaN
/// (the rule of indexing.h, which has other modes).
LOCKSTEP_API Array take_rows(const ArrayOperand& table, const ArrayOperand& indices);
/// Elements of x at the indices along an axis; shapes are equal but for it. Negative indices count from the end, those
/// outside read NaN (the rule of indexing.h, which has other modes). jax.numpy.take_along_axis.
LOCKSTEP_API Array take_along_axis(const ArrayOperand& x, const ArrayOperand& indices, std::int64_t axis);
/// 1 where the class index equals the position along a new last axis. An index outside [0, classes), a negative one
/// too, gives zeros, which as a label is no class: softmax_cross_entropy and accuracy of integer labels give such rows
/// NaN. jax.nn.one_hot.
LOCKSTEP_API Array one_hot(const ArrayOperand& indices, std::int64_t classes, DType dtype = float32);

/// Convolution parameters, one entry per spatial dimension; an empty list means the neutral value.
struct ConvOptions {
  detail::OutOfLine<Axes> strides = {};
  detail::OutOfLine<std::vector<std::pair<std::int64_t, std::int64_t>>> padding = {};
  detail::OutOfLine<Axes> dilation = {};  ///< Of the kernel: that many minus one zeros between neighbours.
  std::int64_t groups = 1;                ///< Input and output features in that many equal parts, each on its own.
};
/// x [N, spatial..., C], kernel [window..., C/groups, O] -> [N, out..., O]: a correlation, the kernel is not flipped.
/// Integers stay integers. Throws ShapeError where shapes and options do not fit. convolution.h has all of XLA's
/// parameters.
LOCKSTEP_API Array conv(const ArrayOperand& x, const ArrayOperand& kernel, const ConvOptions& options = {});

/// Windows over the spatial dimensions of x.
struct WindowOptions {
  detail::OutOfLine<Axes> window = {};   ///< Extents, one per spatial dimension; of x [N, spatial..., C].
  detail::OutOfLine<Axes> strides = {};  ///< Empty: the window.
  detail::OutOfLine<std::vector<std::pair<std::int64_t, std::int64_t>>> padding = {};
};
/// The largest element of each window, NaN where one is; padding is none, and a window without an element throws
/// ShapeError. Equal elements: the first one has the derivative.
LOCKSTEP_API Array window_max(const ArrayOperand& x, const WindowOptions& options);
/// Mean over the window's elements that lie inside the array.
LOCKSTEP_API Array window_mean(const ArrayOperand& x, const WindowOptions& options);

// ---- activations -----------------------------------------------------------------------------------------------------
LOCKSTEP_API Array relu(const ArrayOperand& x);     ///< Derivative 0 at 0; NaN stays NaN.
LOCKSTEP_API Array sigmoid(const ArrayOperand& x);  ///< 1 / (1 + exp(-x)), as `logistic`.
/// x sigmoid(x), also known as swish; 0 and x at the infinities.
LOCKSTEP_API Array silu(const ArrayOperand& x);
LOCKSTEP_API Array softplus(const ArrayOperand& x);  ///< log(1 + exp(x)) without overflow.
/// The tanh approximation, or the exact one by erf.
LOCKSTEP_API Array gelu(const ArrayOperand& x, bool approximate = true);
/// exp(x) over its sum along the axis, without overflow, in at least float32. Infinite elements share 1 among them,
/// those of -inf get 0; NaN where one is NaN or all are -inf.
LOCKSTEP_API Array softmax(const ArrayOperand& x, std::int64_t axis = -1);
/// Its logarithm, exact also where one element is almost all; -inf for elements of -inf.
LOCKSTEP_API Array log_softmax(const ArrayOperand& x, std::int64_t axis = -1);

}  // namespace lockstep
