#include <string>

#include <lockstep/error.h>

#include "engine/vision/models/image_layers.h"

namespace lockstep::models {

Array densenet(const Scope& scope, const Array& x, const DensenetOptions& options) {
  check_image("densenet", x, 32);
  if (options.blocks.empty() || options.growth < 1) {
    throw ValueError("[densenet] there are " + std::to_string(options.blocks.size()) + " stages, growth is " +
                     std::to_string(options.growth) +
                     "; give a number of blocks for each stage, and a growth of at least 1");
  }
  const auto active = [&](const std::string& name, const Array& y) {
    return relu(batch_norm(scope[name], y, {.epsilon = 1.001e-5}));
  };
  Array h = convolved(scope, "conv1_conv", x, {.filters = 64, .kernel = 7, .stride = 2, .padding = Padding::half});
  h = max_pool2d(active("conv1_bn", h), {.window = {3, 3}, .strides = {2, 2}, .padding = Padding::half});
  for (std::size_t stage = 0; stage < options.blocks.size(); ++stage) {
    if (stage > 0) {
      const std::string name = "pool" + std::to_string(stage + 1);
      h = convolved(scope, name + "_conv", active(name + "_bn", h), {.filters = h.dim(-1) / 2});
      h = avg_pool2d(h, {2, 2});
    }
    for (std::int64_t block = 1; block <= options.blocks[stage]; ++block) {
      const std::string name = "conv" + std::to_string(stage + 2) + "_block" + std::to_string(block);
      const Array y = convolved(scope, name + "_1_conv", active(name + "_0_bn", h), {.filters = 4 * options.growth});
      h = concatenate(
          {h, convolved(scope, name + "_2_conv", active(name + "_1_bn", y), {.filters = options.growth, .kernel = 3})},
          -1);
    }
  }
  return classes_of(scope, active("bn", h), options.classes, options.head);
}

}  // namespace lockstep::models
