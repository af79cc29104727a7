#pragma once

#include <cstdint>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/initializers.h>
#include <lockstep/layers_dense.h>
#include <lockstep/model.h>
#include <lockstep/ops.h>
#include <lockstep/out_of_line.h>

// Convolutions, channels last.
namespace lockstep {

/// valid: none. same: as many results as windows start inside the image, the smaller half of the padding in front
/// (Keras, TensorFlow). half: half a window on every side, whatever the stride (PyTorch's padding = kernel / 2).
/// causal: all in front of the first spatial dimension, so that no result sees a later place; the others as of same.
enum class Padding : std::uint8_t { same, valid, half, causal };

/// Options of `conv2d`; pairs are (height, width).
struct Conv2dOptions {
  std::int64_t filters = 0;  ///< Output channels; must be given.
  std::pair<std::int64_t, std::int64_t> kernel = {3, 3};
  std::pair<std::int64_t, std::int64_t> strides = {1, 1};
  Padding padding = Padding::same;
  std::pair<std::int64_t, std::int64_t> dilation = {1, 1};
  std::int64_t groups = 1;
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Aggregation aggregation = Aggregation::none;  ///< Of kernel and bias.
  KernelFunction kernel_function = {};          ///< Nothing: the kernel as it is.
};
/// x[N, H, W, C] -> [N, H', W', filters]. Variables kernel [h, w, C/groups, filters], bias [filters].
LOCKSTEP_API Array conv2d(const Scope& scope, const ArrayOperand& x, const Conv2dOptions& options);

/// Options of convolutions over any number of spatial dimensions; lists have one entry for each, or one for all.
struct ConvLayerOptions {
  std::int64_t filters = 0;  ///< Output channels; must be given, but for depthwise_conv.
  detail::OutOfLine<Axes> kernel = {3};
  detail::OutOfLine<Axes> strides = {1};
  Padding padding = Padding::same;
  detail::OutOfLine<Axes> dilation = {1};
  std::int64_t groups = 1;      ///< Of conv and conv_transpose.
  std::int64_t multiplier = 1;  ///< Features of each channel, of depthwise_conv and separable_conv.
  bool use_bias = true;
  Initializer kernel_initializer = initializers::glorot_uniform();
  Initializer bias_initializer = initializers::zeros();
  Aggregation aggregation = Aggregation::none;  ///< Of kernels and bias.
  KernelFunction kernel_function = {};          ///< Nothing: the kernel as it is; of separable_conv, the pointwise one.
  detail::OutOfLine<Axes> output_padding =
      {};  ///< Of conv_transpose alone: nothing, or more results at the ends (ConvTransposeOptions).
};
// x[N, spatial..., C] of one to three spatial dimensions -> [N, spatial'..., filters]. All throw ShapeError for other
// inputs and ValueError for options that do not fit or that the layer does not read.
/// A convolution. Variables kernel [window..., C / groups, filters], bias [filters].
LOCKSTEP_API Array conv(const Scope& scope, const ArrayOperand& x, const ConvLayerOptions& options);
/// The gradient of a convolution as a layer: each place spreads over a window. same: extent * stride results, valid:
/// extent * stride + max(window - stride, 0), half: (extent - 1) * stride + 1 for an odd window (PyTorch's padding =
/// kernel / 2); not causal. Variables kernel [window..., filters / groups, C], bias [filters]. Dumoulin and Visin 2016.
LOCKSTEP_API Array conv_transpose(const Scope& scope, const ArrayOperand& x, const ConvLayerOptions& options);
/// A kernel for each channel: [N, spatial'..., C * multiplier], channel c's features next to each other. Variables
/// kernel [window..., C, multiplier], bias [C * multiplier]. `filters` is not read.
LOCKSTEP_API Array depthwise_conv(const Scope& scope, const ArrayOperand& x, const ConvLayerOptions& options);
/// depthwise_conv without a bias, then a product at each place. Variables depthwise_kernel, pointwise_kernel [C *
/// multiplier, filters], bias [filters]. Chollet 2017.
LOCKSTEP_API Array separable_conv(const Scope& scope, const ArrayOperand& x, const ConvLayerOptions& options);
/// A convolution whose places share no weights: a kernel and a bias for each. Variables kernel [spatial'..., C * window,
/// filters], in which the window's elements of a channel are next to each other, bias [spatial'..., filters]. `groups`
/// must be 1. (Flax' ConvLocal, Keras' LocallyConnected)
LOCKSTEP_API Array conv_local(const Scope& scope, const ArrayOperand& x, const ConvLayerOptions& options);

}  // namespace lockstep
