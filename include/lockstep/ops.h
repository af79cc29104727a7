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

namespace lockstep {

using Axes = std::vector<std::int64_t>;

/// The axes that an op works along: one, as in sum(x, 1), several, as in sum(x, {0, 1}), or, where none are named, all.
struct OptionalAxes : std::optional<Axes> {
  OptionalAxes() = default;
  OptionalAxes(std::nullopt_t) {}
  OptionalAxes(std::optional<Axes> axes) : std::optional<Axes>(std::move(axes)) {}
  OptionalAxes(Axes axes) : std::optional<Axes>(std::move(axes)) {}
  OptionalAxes(std::initializer_list<std::int64_t> axes) : std::optional<Axes>(Axes(axes)) {}
  template <std::integral Axis>
  requires(!std::same_as<Axis, bool>) OptionalAxes(Axis axis)
      : std::optional<Axes>(Axes{static_cast<std::int64_t>(axis)}) {}
};

// ---- the element-wise ops of ops.def ---------------------------------------------------------------------------------
// Operands are promoted to one dtype and broadcast as in numpy. Integers and bool become float32 in the functions that
// need floats: cos erf erf_inv exp expm1 fma log log1p logistic nextafter pow rsqrt sin sqrt tanh. `div` truncates
// integers, operator/ divides truly. Throws ShapeError where shapes do not broadcast, DtypeError where the op does not
// take the dtype, ValueError for an integer scalar that the dtype cannot hold. Of bool, add is or and mul is and.
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
  LOCKSTEP_API std::vector<Array> name(const ArrayOperands& operands, const Attrs& attrs);
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

LOCKSTEP_API Array operator+(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator-(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator*(const Operand& a, const Operand& b);
/// True division: integers give float32 (as jax.numpy.true_divide).
LOCKSTEP_API Array operator/(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator-(const Array& x);
LOCKSTEP_API Array operator<(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator<=(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator>(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator>=(const Operand& a, const Operand& b);
/// Element-wise, as in numpy.
LOCKSTEP_API Array operator==(const Array& a, const Array& b);
LOCKSTEP_API Array operator!=(const Array& a, const Array& b);
LOCKSTEP_API Array operator==(const Array& a, const Operand& b);
LOCKSTEP_API Array operator!=(const Array& a, const Operand& b);
LOCKSTEP_API Array operator==(const Operand& a, const Array& b);
LOCKSTEP_API Array operator!=(const Operand& a, const Array& b);
LOCKSTEP_API Array operator&(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator|(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator^(const Operand& a, const Operand& b);
LOCKSTEP_API Array operator~(const Array& x);

// ---- making arrays ---------------------------------------------------------------------------------------------------
LOCKSTEP_API Array full(const Shape& shape, const Operand& scalar, DType dtype = float32);
LOCKSTEP_API Array zeros(const Shape& shape, DType dtype = float32,
                         const detail::CallSite& at = detail::SourceLocation::current());
LOCKSTEP_API Array ones(const Shape& shape, DType dtype = float32,
                        const detail::CallSite& at = detail::SourceLocation::current());
LOCKSTEP_API Array full_like(const ArrayOperand& like, const Operand& scalar);
LOCKSTEP_API Array zeros_like(const ArrayOperand& like);
LOCKSTEP_API Array ones_like(const ArrayOperand& like);
/// 0, 1, ..., n-1.
LOCKSTEP_API Array arange(std::int64_t n, DType dtype = int32,
                          const detail::CallSite& at = detail::SourceLocation::current());
LOCKSTEP_API Array iota(const Shape& shape, std::int64_t dim, DType dtype = int32,
                        const detail::CallSite& at = detail::SourceLocation::current());
LOCKSTEP_API Array eye(std::int64_t n, DType dtype = float32,
                       const detail::CallSite& at = detail::SourceLocation::current());

// ---- types and choice ------------------------------------------------------------------------------------------------
LOCKSTEP_API Array convert(const ArrayOperand& x, DType dtype);
LOCKSTEP_API Array bitcast_convert(const ArrayOperand& x, DType dtype);
/// `on_true` where the predicate holds; broadcast and promoted.
LOCKSTEP_API Array where(const ArrayOperand& predicate, const Operand& on_true, const Operand& on_false);
LOCKSTEP_API Array clip(const ArrayOperand& x, const Operand& low, const Operand& high);
LOCKSTEP_API Array square(const ArrayOperand& x);

// ---- shape; starts of a dynamic slice are clamped so that it fits, negative ones count from the end -----------------
/// One extent may be -1.
LOCKSTEP_API Array reshape(const ArrayOperand& x, const std::vector<std::int64_t>& shape);
LOCKSTEP_API Array transpose(const ArrayOperand& x, const Axes& permutation);
/// Dimensions reversed.
LOCKSTEP_API Array transpose(const ArrayOperand& x);
LOCKSTEP_API Array moveaxis(const ArrayOperand& x, std::int64_t from, std::int64_t to);
LOCKSTEP_API Array swapaxes(const ArrayOperand& x, std::int64_t a, std::int64_t b);
LOCKSTEP_API Array expand_dims(const ArrayOperand& x, std::int64_t axis);
LOCKSTEP_API Array squeeze(const ArrayOperand& x, const Axes& axes);
template <std::integral Axis>
Array squeeze(const ArrayOperand& x, Axis axis) {
  return squeeze(x, Axes{static_cast<std::int64_t>(axis)});
}
/// All dimensions but the first merged.
LOCKSTEP_API Array flatten(const ArrayOperand& x);
LOCKSTEP_API Array broadcast_to(const ArrayOperand& x, const Shape& shape);
LOCKSTEP_API Array concatenate(const ArrayOperands& arrays, std::int64_t axis);
LOCKSTEP_API Array stack(const ArrayOperands& arrays, std::int64_t axis);
LOCKSTEP_API std::vector<Array> split(const ArrayOperand& x, std::int64_t parts, std::int64_t axis);
LOCKSTEP_API Array slice(const ArrayOperand& x, const Axes& start, const Axes& limit, const Axes& strides = {});
/// Elements [start, limit) of one axis.
LOCKSTEP_API Array slice_in_dim(const ArrayOperand& x, std::int64_t start, std::int64_t limit, std::int64_t axis);
LOCKSTEP_API Array dynamic_slice(const ArrayOperand& x, const ArrayOperands& start, const Axes& sizes);
LOCKSTEP_API Array pad(const ArrayOperand& x, const Operand& value, const Axes& low, const Axes& high);
LOCKSTEP_API Array reverse(const ArrayOperand& x, const Axes& axes);

// ---- reductions: no axes means all; negative axes count from the end -------------------------------------------------
// sum and prod of bool, int8 and int16 give int32, of uint8 and uint16 uint32; means of integers give float32.
LOCKSTEP_API Array sum(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array prod(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array max(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array min(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array mean(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
/// Biased (divided by n), in two passes; float16 and bfloat16 are widened to float32 inside, as in `mean`.
LOCKSTEP_API Array var(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array all(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array any(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array logsumexp(const ArrayOperand& x, const OptionalAxes& axes = std::nullopt, bool keep = false);
LOCKSTEP_API Array argmax(const ArrayOperand& x, std::int64_t axis, DType dtype = int32);
LOCKSTEP_API Array argmin(const ArrayOperand& x, std::int64_t axis, DType dtype = int32);
/// Values and int32 indices along the last axis, descending.
LOCKSTEP_API std::pair<Array, Array> top_k(const ArrayOperand& x, std::int64_t k);

// ---- products and indexing -------------------------------------------------------------------------------------------
LOCKSTEP_API Array dot_general(const ArrayOperand& a, const ArrayOperand& b, const std::pair<Axes, Axes>& contract,
                               const std::pair<Axes, Axes>& batch = {});
/// numpy.matmul: the last two dimensions, the others broadcast; vectors as numpy treats them.
LOCKSTEP_API Array matmul(const ArrayOperand& a, const ArrayOperand& b);
/// Rows table[i], [I..., ...]: take(table, indices, 0). Negative indices count from the end, those outside read NaN (the
/// rule of indexing.h, which has other modes).
LOCKSTEP_API Array take_rows(const ArrayOperand& table, const ArrayOperand& indices);
/// Elements of x at the indices along an axis; shapes are equal but for it. Negative indices count from the end, those
/// outside read NaN (the rule of indexing.h, which has other modes). jax.numpy.take_along_axis.
LOCKSTEP_API Array take_along_axis(const ArrayOperand& x, const ArrayOperand& indices, std::int64_t axis);
/// 1 where the class index equals the position along a new last axis. An index outside [0, classes), a negative one too,
/// gives zeros, which as a label is no class: softmax_cross_entropy and accuracy of integer labels give such rows NaN.
/// jax.nn.one_hot.
LOCKSTEP_API Array one_hot(const ArrayOperand& indices, std::int64_t classes, DType dtype = float32);

/// Convolution parameters, one entry per spatial dimension; an empty list means the neutral value.
struct ConvOptions {
  Axes strides = {};
  std::vector<std::pair<std::int64_t, std::int64_t>> padding = {};
  Axes dilation = {};
  std::int64_t groups = 1;
};
/// x [N, spatial..., C], kernel [window..., C/groups, O] -> [N, out..., O].
LOCKSTEP_API Array conv(const ArrayOperand& x, const ArrayOperand& kernel, const ConvOptions& options = {});

struct WindowOptions {
  Axes window = {};
  Axes strides = {};  ///< Empty: the window.
  std::vector<std::pair<std::int64_t, std::int64_t>> padding = {};
};
LOCKSTEP_API Array window_max(const ArrayOperand& x, const WindowOptions& options);
/// Mean over the window's elements that lie inside the array.
LOCKSTEP_API Array window_mean(const ArrayOperand& x, const WindowOptions& options);

// ---- activations -----------------------------------------------------------------------------------------------------
LOCKSTEP_API Array relu(const ArrayOperand& x);  ///< Derivative 0 at 0; NaN stays NaN.
LOCKSTEP_API Array sigmoid(const ArrayOperand& x);
LOCKSTEP_API Array silu(const ArrayOperand& x);
LOCKSTEP_API Array softplus(const ArrayOperand& x);
/// The tanh approximation, or the exact one by erf.
LOCKSTEP_API Array gelu(const ArrayOperand& x, bool approximate = true);
LOCKSTEP_API Array softmax(const ArrayOperand& x, std::int64_t axis = -1);
LOCKSTEP_API Array log_softmax(const ArrayOperand& x, std::int64_t axis = -1);

}  // namespace lockstep
