#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/vision/models/image_layers.h"

namespace lockstep::models {
namespace {

void check_width(const char* model, double width) {
  if (width > 0) return;
  throw ValueError(fmt::format("[{}] width is {}; give a number above 0", model, width));
}

Array mobile_normalized(const Scope& scope, const std::string& name, const Array& x, double momentum = 0.999) {
  return batch_norm(scope[name], x, {.momentum = momentum});
}

/// A residual block that is widest inside.
struct Inverted {
  std::string prefix;  ///< Of its layers' names,
  std::string norm;    ///< and what those of normalizations end in.
  std::int64_t inside = 0, filters = 0, kernel = 3, stride = 1;
  bool expands = true;
  std::int64_t squeezed = 0;  ///< Filters inside of an excitation; 0: none.
  Array (*activation)(const ArrayOperand&) = relu6;
};

Array inverted(const Scope& scope, const Array& x, const Inverted& b) {
  const auto norm = [&](const std::string& layer, const Array& y) {
    return mobile_normalized(scope, b.prefix + layer + b.norm, y);
  };
  Array y = x;
  if (b.expands) {
    y = b.activation(norm("expand", convolved(scope, b.prefix + "expand", y, {.filters = b.inside})));
  }
  y = convolved_by_channel(scope, b.prefix + "depthwise", y, {.kernel = b.kernel, .stride = b.stride});
  y = b.activation(norm("depthwise", y));
  if (b.squeezed > 0) {
    y = excited(scope, y,
                {.first = b.prefix + "squeeze_excite_conv",
                 .second = b.prefix + "squeeze_excite_conv_1",
                 .filters = b.squeezed,
                 .gate = hard_sigmoid});
  }
  y = norm("project", convolved(scope, b.prefix + "project", y, {.filters = b.filters}));
  return b.stride == 1 && x.dim(-1) == b.filters ? x + y : y;
}

/// A row of the table of a MobileNetV3.
struct V3Block {
  double expansion;
  std::int64_t filters, kernel, stride;
  bool excites, swishes;
};

const std::vector<V3Block>& v3_blocks(bool large) {
  static const std::vector<V3Block> of_large = {
      {1, 16, 3, 1, false, false},  {4, 24, 3, 2, false, false},  {3, 24, 3, 1, false, false},
      {3, 40, 5, 2, true, false},   {3, 40, 5, 1, true, false},   {3, 40, 5, 1, true, false},
      {6, 80, 3, 2, false, true},   {2.5, 80, 3, 1, false, true}, {2.3, 80, 3, 1, false, true},
      {2.3, 80, 3, 1, false, true}, {6, 112, 3, 1, true, true},   {6, 112, 3, 1, true, true},
      {6, 160, 5, 2, true, true},   {6, 160, 5, 1, true, true},   {6, 160, 5, 1, true, true}};
  static const std::vector<V3Block> of_small = {{1, 16, 3, 2, true, false},
                                                {72.0 / 16, 24, 3, 2, false, false},
                                                {88.0 / 24, 24, 3, 1, false, false},
                                                {4, 40, 5, 2, true, true},
                                                {6, 40, 5, 1, true, true},
                                                {6, 40, 5, 1, true, true},
                                                {3, 48, 5, 1, true, true},
                                                {3, 48, 5, 1, true, true},
                                                {6, 96, 5, 2, true, true},
                                                {6, 96, 5, 1, true, true},
                                                {6, 96, 5, 1, true, true}};
  return large ? of_large : of_small;
}

}  // namespace

Array mobilenet(const Scope& scope, const Array& x, const MobilenetOptions& options) {
  check_image("mobilenet", x, 32);
  check_width("mobilenet", options.width);
  constexpr struct {
    std::int64_t filters, stride;
  } blocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
  const auto wide = [&](std::int64_t filters) {
    return static_cast<std::int64_t>(static_cast<double>(filters) * options.width);
  };
  const auto active = [&](const std::string& name, const Array& y) {
    return relu6(mobile_normalized(scope, name + "_bn", y, 0.99));
  };
  Array h = active("conv1", convolved(scope, "conv1", x, {.filters = wide(32), .kernel = 3, .stride = 2}));
  int number = 1;
  for (const auto& [filters, stride] : blocks) {
    const std::string by_channel = "conv_dw_" + std::to_string(number), pointwise = "conv_pw_" + std::to_string(number);
    // Behind the image alone, of odd sizes too.
    const Array padded = stride == 1 ? h : pad(h, 0, {0, 0, 0, 0}, {0, 1, 1, 0});
    const Padding padding = stride == 1 ? Padding::same : Padding::valid;
    h = active(by_channel,
               convolved_by_channel(scope, by_channel, padded, {.kernel = 3, .stride = stride, .padding = padding}));
    h = active(pointwise, convolved(scope, pointwise, h, {.filters = wide(filters)}));
    ++number;
  }
  const Array features = dropout(scope["dropout"], global_avg_pool2d(h), options.dropout);
  return classes_of_features(scope, features, options.classes, options.head);
}

Array mobilenet_v2(const Scope& scope, const Array& x, const MobilenetOptions& options) {
  check_image("mobilenet_v2", x);
  check_width("mobilenet_v2", options.width);
  constexpr struct {
    std::int64_t filters, blocks, stride;
  } stages[] = {{16, 1, 1}, {24, 2, 2}, {32, 3, 2}, {64, 4, 2}, {96, 3, 1}, {160, 3, 2}, {320, 1, 1}};
  Array h = convolved(scope, "Conv1", x, {.filters = multiple_of_8(32 * options.width), .kernel = 3, .stride = 2});
  h = relu6(mobile_normalized(scope, "bn_Conv1", h));
  int number = 0;
  for (const auto& [filters, blocks, stride] : stages) {
    const auto wide = static_cast<std::int64_t>(static_cast<double>(filters) * options.width);
    for (std::int64_t block = 0; block < blocks; ++block, ++number) {
      h = inverted(scope, h,
                   {.prefix = number == 0 ? "expanded_conv_" : "block_" + std::to_string(number) + "_",
                    .norm = "_BN",
                    .inside = 6 * h.dim(-1),
                    .filters = multiple_of_8(static_cast<double>(wide)),
                    .stride = block == 0 ? stride : 1,
                    .expands = number > 0});
    }
  }
  const std::int64_t last = options.width > 1 ? multiple_of_8(1280 * options.width) : 1280;
  h = relu6(mobile_normalized(scope, "Conv_1_bn", convolved(scope, "Conv_1", h, {.filters = last})));
  return classes_of(scope, h, options.classes, options.head);
}

Array mobilenet_v3(const Scope& scope, const Array& x, const MobilenetV3Options& options) {
  check_image("mobilenet_v3", x);
  check_width("mobilenet_v3", options.width);
  Array h = hard_silu(
      mobile_normalized(scope, "conv_bn", convolved(scope, "conv", x, {.filters = 16, .kernel = 3, .stride = 2})));
  int number = 0;
  for (const V3Block& block : v3_blocks(options.large)) {
    const std::int64_t inside = multiple_of_8(static_cast<double>(h.dim(-1)) * block.expansion);
    h = inverted(scope, h,
                 {.prefix = number == 0 ? "expanded_conv_" : "expanded_conv_" + std::to_string(number) + "_",
                  .norm = "_bn",
                  .inside = inside,
                  .filters = multiple_of_8(static_cast<double>(block.filters) * options.width),
                  .kernel = block.kernel,
                  .stride = block.stride,
                  .expands = number > 0,
                  .squeezed = block.excites ? multiple_of_8(static_cast<double>(inside) * 0.25) : 0,
                  .activation = block.swishes ? hard_silu : relu});
    ++number;
  }
  const std::int64_t last = multiple_of_8(static_cast<double>(h.dim(-1) * 6));
  h = hard_silu(mobile_normalized(scope, "conv_1_bn", convolved(scope, "conv_1", h, {.filters = last})));
  const double usual = options.large ? 1280 : 1024;
  const auto units = options.width > 1 ? multiple_of_8(usual * options.width) : static_cast<std::int64_t>(usual);
  const Array means = reshape(global_avg_pool2d(h), {h.dim(0), 1, 1, h.dim(-1)});
  h = hard_silu(convolved(scope, "conv_2", means, {.filters = units, .use_bias = true}));
  const Array features = dropout(scope["dropout"], reshape(h, {h.dim(0), units}), options.dropout);
  return classes_of_features(scope, features, options.classes, options.head);
}

}  // namespace lockstep::models
