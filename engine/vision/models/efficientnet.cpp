#include <array>
#include <cmath>
#include <span>
#include <string>
#include <vector>

#include <lockstep/error.h>

#include "engine/vision/models/image_layers.h"

namespace lockstep::models {
namespace {

/// Blocks of one kind: `fused` convolves once where the others do so at each place and by channel.
struct Stage {
  std::int64_t kernel, repeats, in, out, expansion, stride;
  bool excites = true, fused = false;
};

struct Scaling {
  double width, depth;
};

/// What all blocks of a network have in common.
struct Family {
  const char* depthwise;  ///< Name of the convolution by channel.
  double momentum;
};

Array family_normalized(const Scope& scope, const std::string& name, const Array& x, const Family& family) {
  return batch_norm(scope[name], x, {.momentum = family.momentum});
}

/// Block `name`: `in` is what the excitation counts by.
Array efficientnet_block(const Scope& scope, const std::string& name, const Array& x, const Stage& s,
                         const Family& family, double drop) {
  const auto active = [&](const std::string& norm, const Array& y) {
    return silu(family_normalized(scope, name + norm, y, family));
  };
  Array y = x;
  const std::int64_t inside = s.in * s.expansion;
  if (s.expansion != 1) {
    const Convolution wide = s.fused ? Convolution{.filters = inside, .kernel = s.kernel, .stride = s.stride}
                                     : Convolution{.filters = inside};
    y = active("expand_bn", convolved(scope, name + "expand_conv", y, wide));
  }
  if (!s.fused) {
    y = convolved_by_channel(scope, name + family.depthwise, y, {.kernel = s.kernel, .stride = s.stride});
    y = active("bn", y);
  }
  if (s.excites) {
    const std::int64_t squeezed = std::max<std::int64_t>(1, s.in / 4);
    y = excited(scope, y,
                {.first = name + "se_reduce", .second = name + "se_expand", .filters = squeezed, .inside = silu});
  }
  const bool whole = s.fused && s.expansion == 1;
  y = convolved(scope, name + "project_conv", y,
                {.filters = s.out, .kernel = whole ? s.kernel : 1, .stride = whole ? s.stride : 1});
  y = whole ? active("project_bn", y) : family_normalized(scope, name + "project_bn", y, family);
  if (s.stride != 1 || s.in != s.out) return y;
  return x + with_rows_dropped(scope[name + "drop"], y, drop);
}

/// From the stem to the last activation; filters are those of the stages.
Array efficientnet_blocks(const Scope& scope, const Array& x, std::span<const Stage> stages, const Family& family,
                          double drop, std::int64_t top) {
  Array h = convolved(scope, "stem_conv", x, {.filters = stages[0].in, .kernel = 3, .stride = 2});
  h = silu(family_normalized(scope, "stem_bn", h, family));
  std::int64_t blocks = 0, number = 0;
  for (const Stage& s : stages) blocks += s.repeats;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    Stage s = stages[i];
    for (std::int64_t repeat = 0; repeat < stages[i].repeats; ++repeat, ++number) {
      const std::string name = "block" + std::to_string(i + 1) + static_cast<char>('a' + repeat) + "_";
      h = efficientnet_block(scope, name, h, s, family,
                             drop * static_cast<double>(number) / static_cast<double>(blocks));
      s.stride = 1, s.in = s.out;
    }
  }
  return silu(family_normalized(scope, "top_bn", convolved(scope, "top_conv", h, {.filters = top}), family));
}

std::int64_t deeper(std::int64_t repeats, double depth) {
  return static_cast<std::int64_t>(std::ceil(depth * static_cast<double>(repeats)));
}

const std::vector<Stage>& v2_stages(EfficientnetV2Size size) {
  using S = std::vector<Stage>;
  static const S b = {{3, 1, 32, 16, 1, 1, false, true},
                      {3, 2, 16, 32, 4, 2, false, true},
                      {3, 2, 32, 48, 4, 2, false, true},
                      {3, 3, 48, 96, 4, 2},
                      {3, 5, 96, 112, 6, 1},
                      {3, 8, 112, 192, 6, 2}};
  static const S s = {{3, 2, 24, 24, 1, 1, false, true},
                      {3, 4, 24, 48, 4, 2, false, true},
                      {3, 4, 48, 64, 4, 2, false, true},
                      {3, 6, 64, 128, 4, 2},
                      {3, 9, 128, 160, 6, 1},
                      {3, 15, 160, 256, 6, 2}};
  static const S m = {{3, 3, 24, 24, 1, 1, false, true},
                      {3, 5, 24, 48, 4, 2, false, true},
                      {3, 5, 48, 80, 4, 2, false, true},
                      {3, 7, 80, 160, 4, 2},
                      {3, 14, 160, 176, 6, 1},
                      {3, 18, 176, 304, 6, 2},
                      {3, 5, 304, 512, 6, 1}};
  static const S l = {{3, 4, 32, 32, 1, 1, false, true},
                      {3, 7, 32, 64, 4, 2, false, true},
                      {3, 7, 64, 96, 4, 2, false, true},
                      {3, 10, 96, 192, 4, 2},
                      {3, 19, 192, 224, 6, 1},
                      {3, 25, 224, 384, 6, 2},
                      {3, 7, 384, 640, 6, 1}};
  switch (size) {
    case EfficientnetV2Size::s:
      return s;
    case EfficientnetV2Size::m:
      return m;
    case EfficientnetV2Size::l:
      return l;
    default:
      return b;
  }
}

Scaling v2_scaling(EfficientnetV2Size size) {
  switch (size) {
    case EfficientnetV2Size::b1:
      return {1, 1.1};
    case EfficientnetV2Size::b2:
      return {1.1, 1.2};
    case EfficientnetV2Size::b3:
      return {1.2, 1.4};
    default:
      return {1, 1};
  }
}

}  // namespace

Array efficientnet(const Scope& scope, const Array& x, const EfficientnetOptions& options) {
  struct Size {
    Scaling scaling;
    double dropout;
  };
  constexpr std::array<Size, 8> sizes = {Size{{1, 1}, 0.2}, {{1, 1.1}, 0.2},   {{1.1, 1.2}, 0.3}, {{1.2, 1.4}, 0.3},
                                         {{1.4, 1.8}, 0.4}, {{1.6, 2.2}, 0.4}, {{1.8, 2.6}, 0.5}, {{2, 3.1}, 0.5}};
  check_image("efficientnet", x);
  if (options.size < 0 || options.size >= std::ssize(sizes)) {
    throw ValueError("[efficientnet] size is " + std::to_string(options.size) + "; give 0 to 7, for B0 to B7");
  }
  const auto& [scaling, rate] = sizes[static_cast<std::size_t>(options.size)];
  std::vector<Stage> stages = {{3, 1, 32, 16, 1, 1},  {3, 2, 16, 24, 6, 2},  {5, 2, 24, 40, 6, 2},
                               {3, 3, 40, 80, 6, 2},  {5, 3, 80, 112, 6, 1}, {5, 4, 112, 192, 6, 2},
                               {3, 1, 192, 320, 6, 1}};
  for (Stage& s : stages) {
    s.in = multiple_of_8(static_cast<double>(s.in) * scaling.width);
    s.out = multiple_of_8(static_cast<double>(s.out) * scaling.width);
    s.repeats = deeper(s.repeats, scaling.depth);
  }
  const Array h = efficientnet_blocks(scope, x, stages, {"dwconv", 0.99}, options.drop_connect,
                                      multiple_of_8(1280 * scaling.width));
  const Array features = dropout(scope["top_dropout"], global_avg_pool2d(h), rate);
  return classes_of_features(scope, features, options.classes, options.head);
}

Array efficientnet_v2(const Scope& scope, const Array& x, const EfficientnetV2Options& options) {
  check_image("efficientnet_v2", x);
  const Scaling scaling = v2_scaling(options.size);
  const auto wide = [&](std::int64_t filters) {  // may lose more than a tenth
    const auto nearest = static_cast<std::int64_t>(static_cast<double>(filters) * scaling.width + 4) / 8 * 8;
    return std::max<std::int64_t>(8, nearest);
  };
  std::vector<Stage> stages = v2_stages(options.size);
  for (Stage& s : stages) s.in = wide(s.in), s.out = wide(s.out), s.repeats = deeper(s.repeats, scaling.depth);
  const Array h = efficientnet_blocks(scope, x, stages, {"dwconv2", 0.9}, options.drop_connect, wide(1280));
  const Array features = dropout(scope["top_dropout"], global_avg_pool2d(h), options.dropout);
  return classes_of_features(scope, features, options.classes, options.head);
}

}  // namespace lockstep::models
