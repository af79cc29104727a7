#include <array>
#include <string>
#include <vector>

#include <lockstep/error.h>

#include "engine/vision/models/image_layers.h"

namespace lockstep::models {
namespace {

struct Stages {
  std::vector<std::int64_t> depths, widths;
};

Stages stages_of(const ConvnextOptions& options) {
  const std::int64_t width = std::array{96, 96, 128, 192, 256}[static_cast<std::size_t>(options.size)];
  const std::int64_t deepest = options.size == ConvnextSize::tiny ? 9 : 27;
  Stages stages{options.depths, options.widths};
  if (stages.depths.empty()) stages.depths = {3, 3, deepest, 3};
  if (stages.widths.empty()) stages.widths = {width, 2 * width, 4 * width, 8 * width};
  if (stages.depths.size() != stages.widths.size()) {
    throw ValueError("[convnext] there are " + std::to_string(stages.depths.size()) + " depths and " +
                     std::to_string(stages.widths.size()) + " widths; give one of each for every stage");
  }
  return stages;
}

Array layer_normalized(const Scope& scope, const std::string& name, const Array& x) {
  return layer_norm(scope[name], x, {.epsilon = 1e-6});
}

Array convnext_block(const Scope& scope, const std::string& name, const Array& x, const ConvnextOptions& options,
                     double drop) {
  const std::int64_t width = x.dim(-1);
  Array y = conv2d(scope[name + "_depthwise_conv"], x, {.filters = width, .kernel = {7, 7}, .groups = width});
  y = dense(scope[name + "_pointwise_conv_1"], layer_normalized(scope, name + "_layernorm", y), {.units = 4 * width});
  y = dense(scope[name + "_pointwise_conv_2"], gelu(y, false), {.units = width});
  y = y *
      scope[name + "_layer_scale"].trainable(
          "gamma", {.shape = {width}, .dtype = y.dtype(), .initializer = initializers::constant(options.layer_scale)});
  return x + with_rows_dropped(scope[name + "_stochastic_depth"], y, drop);
}

}  // namespace

Array convnext(const Scope& scope, const Array& x, const ConvnextOptions& options) {
  check_image("convnext", x, 4);
  const Stages stages = stages_of(options);
  std::int64_t blocks = 0, number = 0;
  for (const std::int64_t depth : stages.depths) blocks += depth;
  Array h = x;
  for (std::size_t stage = 0; stage < stages.depths.size(); ++stage) {
    const std::int64_t width = stages.widths[stage];
    if (stage == 0) {
      const Convolution patches{
          .filters = width, .kernel = 4, .stride = 4, .padding = Padding::valid, .use_bias = true};
      h = layer_normalized(scope, "stem_layernorm", convolved(scope, "stem_conv", h, patches));
    } else {
      const std::string before = std::to_string(stage - 1);
      h = convolved(scope, "downsampling_conv_" + before,
                    layer_normalized(scope, "downsampling_layernorm_" + before, h),
                    {.filters = width, .kernel = 2, .stride = 2, .padding = Padding::valid, .use_bias = true});
    }
    for (std::int64_t block = 0; block < stages.depths[stage]; ++block, ++number) {
      const double share = blocks > 1 ? static_cast<double>(number) / static_cast<double>(blocks - 1) : 0;
      const std::string name = "stage_" + std::to_string(stage) + "_block_" + std::to_string(block);
      h = convnext_block(scope, name, h, options, options.drop_path * share);
    }
  }
  const Array features = layer_normalized(scope, "head_layernorm", global_avg_pool2d(h));
  return classes_of_features(scope, features, options.classes, options.head);
}

}  // namespace lockstep::models
