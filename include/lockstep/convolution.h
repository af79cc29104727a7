#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>
#include <lockstep/out_of_line.h>

// Convolutions and windows with all of XLA's parameters. Layouts are channels last: x [N, spatial..., C], kernel
// [window..., C/groups, O]. Integers are convolved exactly, modulo 2^n. All throw ShapeError where shapes and
// parameters do not fit.
namespace lockstep {

/// (low, high) per spatial dimension, negative to crop; or by name: "VALID" (none), "SAME" (as many windows as input /
/// stride, rounded up; the odd element at the end) or "SAME_LOWER" (at the beginning).
class LOCKSTEP_API ConvPadding {
 public:
  ConvPadding();
  ConvPadding(const ConvPadding& other);
  ConvPadding(ConvPadding&& other) noexcept;
  ConvPadding& operator=(const ConvPadding& other);
  ConvPadding& operator=(ConvPadding&& other) noexcept;
  ~ConvPadding();
  ConvPadding(std::string name);                                          // NOLINT: implicit by design
  ConvPadding(const char* name);                                          // NOLINT: implicit by design
  ConvPadding(std::vector<std::pair<std::int64_t, std::int64_t>> pairs);  // NOLINT: implicit by design

  /// Empty where there are pairs.
  const std::string& name() const { return name_; }
  /// Null where there is a name.
  const std::vector<std::pair<std::int64_t, std::int64_t>>* pairs() const { return is_name_ ? nullptr : &pairs_; }

 private:
  std::string name_;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs_;
  bool is_name_ = true;
};

/// The pairs that a padding by name means. Throws ValueError for another name, ShapeError for windows, strides and
/// dilations that are not one number a dimension, the latter two of 1 or more.
LOCKSTEP_API std::vector<std::pair<std::int64_t, std::int64_t>> resolve_padding(const ConvPadding& padding,
                                                                                const Axes& extents, const Axes& window,
                                                                                const Axes& strides,
                                                                                const Axes& dilation = {});

/// As jax.lax.conv_general_dilated; an empty list means the neutral value.
struct ConvGeneralOptions {
  detail::OutOfLine<Axes> strides = {};
  ConvPadding padding = "VALID";
  detail::OutOfLine<Axes> lhs_dilation = {};  ///< Of x: that many minus one zeros between neighbours.
  detail::OutOfLine<Axes> rhs_dilation = {};  ///< Of the kernel.
  /// Input and output features in that many equal parts, each on its own.
  std::int64_t feature_group_count = 1;
  std::int64_t batch_group_count = 1;  ///< Group g of x's rows meets group g of the kernel's outputs.
  /// Layouts of x, kernel and result, such as {"NCHW", "OIHW", "NCHW"}; empty: channels last.
  std::array<std::string, 3> dimension_numbers = {};
};
/// A correlation (the kernel is not flipped) with those options; operands are promoted to one dtype. Throws ShapeError
/// for groups that do not divide rows or features, and for layouts of other letters.
LOCKSTEP_API Array conv_general_dilated(const ArrayOperand& x, const ArrayOperand& kernel,
                                        const ConvGeneralOptions& options = {});

/// The windows that a convolution of x [N, spatial..., C] multiplies, [N, out..., C * elements of a window]: feature
/// c * elements + w is element w, in row-major order, of the window in feature c. Any dtype; group counts must be 1 and
/// the layout of the kernel, if any, is not looked at. (jax.lax.conv_general_dilated_patches)
LOCKSTEP_API Array conv_general_dilated_patches(const ArrayOperand& x, const Axes& window,
                                                const ConvGeneralOptions& options = {});

/// As jax.lax.conv_transpose: x dilated by the strides, then convolved. With `transpose_kernel` the kernel is flipped
/// and its features swapped, which makes it the gradient of a convolution.
struct ConvTransposeOptions {
  detail::OutOfLine<Axes> strides = {};
  /// Pairs are of the dilated x: where PyTorch has p, and a window reaches over k places, (k - 1 - p, k - 1 - p).
  ConvPadding padding = "SAME";
  detail::OutOfLine<Axes> rhs_dilation = {};
  bool transpose_kernel = false;  ///< Makes it the gradient of a convolution with that kernel.
  std::int64_t groups = 1;        ///< Input and output features in that many equal parts, each on its own.
  /// Nothing, or for each dimension how many more results there are at its end than the fewest that the convolution
  /// whose gradient this is may have had: below its stride or dilation. "SAME" then gives (input - 1) * stride + 1 + that
  /// for an odd window, and one less for an even one, "VALID" (input - 1) * stride + window + that, as Keras.
  detail::OutOfLine<Axes> output_padding = {};
};
/// x [N, spatial..., C], kernel [window..., C / groups, O] ([window..., O / groups, C] with `transpose_kernel`) -> [N,
/// out..., O]: padding "SAME" gives input * stride, "VALID" input * stride + max(window - stride, 0). Throws ValueError
/// for another name and for another output padding, ShapeError for groups that do not divide features.
LOCKSTEP_API Array conv_transpose(const ArrayOperand& x, const ArrayOperand& kernel,
                                  const ConvTransposeOptions& options = {});
/// One kernel [window..., 1, C * m] per channel of x [N, spatial..., C].
LOCKSTEP_API Array depthwise_conv(const ArrayOperand& x, const ArrayOperand& kernel, ConvGeneralOptions options = {});

// numpy.convolve and numpy.correlate of two vectors: mode "full", "same" or "valid", for another of which they throw
// ValueError, and ShapeError for what is no vector or empty. Integers stay what they are, as numpy's; complex vectors
// are refused.
/// The sum over i of a[i] v[k - i] for each k.
LOCKSTEP_API Array convolve(const ArrayOperand& a, const ArrayOperand& v, std::string_view mode = "full");
/// The sum over i of a[i + k] v[i] for each shift k, of the longer vector's length with "same", of full overlaps alone
/// with "valid".
LOCKSTEP_API Array correlate(const ArrayOperand& a, const ArrayOperand& v, std::string_view mode = "valid");

// ---- windows ---------------------------------------------------------------------------------------------------------

/// Windows over arrays of any rank, one entry per dimension, as jax.lax.reduce_window.
struct ReduceWindowOptions {
  detail::OutOfLine<Axes> window = {};
  detail::OutOfLine<Axes> strides = {};  ///< Empty: 1.
  ConvPadding padding = "VALID";
  detail::OutOfLine<Axes> base_dilation = {};    ///< Of x: that many minus one neutral elements between neighbours.
  detail::OutOfLine<Axes> window_dilation = {};  ///< The distance of a window's elements.
};
/// The sum of each window. Padding and holes are 0, and never the largest or least in the two below, which throw
/// ShapeError where a window has no element.
LOCKSTEP_API Array reduce_window_sum(const ArrayOperand& x, const ReduceWindowOptions& options);
/// The largest element of each window; NaN where one is.
LOCKSTEP_API Array reduce_window_max(const ArrayOperand& x, const ReduceWindowOptions& options);
/// The least, likewise.
LOCKSTEP_API Array reduce_window_min(const ArrayOperand& x, const ReduceWindowOptions& options);

/// Pooling over the spatial dimensions of x [N, spatial..., C].
struct PoolOptions {
  detail::OutOfLine<Axes> window = {};
  detail::OutOfLine<Axes> strides = {};  ///< Empty: the window.
  ConvPadding padding = "VALID";
  detail::OutOfLine<Axes> dilation = {};  ///< The distance of a window's elements.
};
/// The largest element of each window; padding is none of them. Throws ShapeError where a window has no element.
LOCKSTEP_API Array max_pool(const ArrayOperand& x, const PoolOptions& options);
LOCKSTEP_API Array min_pool(const ArrayOperand& x, const PoolOptions& options);  ///< The least, likewise.
/// The sum of each window; padding is 0.
LOCKSTEP_API Array sum_pool(const ArrayOperand& x, const PoolOptions& options);
/// The mean of a window; elements of the padding count as zeros, or not at all.
LOCKSTEP_API Array avg_pool(const ArrayOperand& x, const PoolOptions& options, bool count_include_pad = true);

}  // namespace lockstep
