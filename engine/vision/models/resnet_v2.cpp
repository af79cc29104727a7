#include <string>

#include <lockstep/error.h>

#include "engine/vision/models/image_layers.h"

namespace lockstep::models {
namespace {

Array preactivated(const Scope& scope, const std::string& name, const Array& x) {
  return relu(batch_norm(scope[name], x, {.epsilon = 1.001e-5}));
}

/// Of a stage: its first block has a convolution for a shortcut, its last one steps.
Array bottleneck(const Scope& scope, const std::string& name, const Array& x, std::int64_t filters, std::int64_t stride,
                 bool projected) {
  const Array before = preactivated(scope, name + "_preact_bn", x);
  Array shortcut = x;
  if (projected) {
    shortcut = convolved(scope, name + "_0_conv", before, {.filters = 4 * filters, .stride = stride, .use_bias = true});
  } else if (stride > 1) {
    shortcut = max_pool2d(x, {.window = {1, 1}, .strides = {stride, stride}});
  }
  Array y = preactivated(scope, name + "_1_bn", convolved(scope, name + "_1_conv", before, {.filters = filters}));
  y = convolved(scope, name + "_2_conv", y,
                {.filters = filters, .kernel = 3, .stride = stride, .padding = Padding::half});
  y = preactivated(scope, name + "_2_bn", y);
  return shortcut + convolved(scope, name + "_3_conv", y, {.filters = 4 * filters, .use_bias = true});
}

}  // namespace

Array resnet_v2(const Scope& scope, const Array& x, const ResnetV2Options& options) {
  check_image("resnet_v2", x);
  if (options.blocks.empty()) throw ValueError("[resnet_v2] blocks is empty; give a number for each stage");
  Array h = convolved(scope, "conv1_conv", x,
                      {.filters = 64, .kernel = 7, .stride = 2, .padding = Padding::half, .use_bias = true});
  // The edge is 0, which may be the largest of a window: nothing has been cut off below.
  h = max_pool2d(pad(h, 0, {0, 1, 1, 0}, {0, 1, 1, 0}), {.window = {3, 3}, .strides = {2, 2}});
  const std::size_t stages = options.blocks.size();
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::int64_t blocks = options.blocks[stage];
    for (std::int64_t block = 0; block < blocks; ++block) {
      const std::string name = "conv" + std::to_string(stage + 2) + "_block" + std::to_string(block + 1);
      const bool steps = block + 1 == blocks && stage + 1 < stages;
      h = bottleneck(scope, name, h, std::int64_t{64} << stage, steps ? 2 : 1, block == 0);
    }
  }
  return classes_of(scope, preactivated(scope, "post_bn", h), options.classes, options.head);
}

}  // namespace lockstep::models
