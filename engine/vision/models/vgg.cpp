#include <algorithm>
#include <string>

#include "engine/vision/models/image_layers.h"

namespace lockstep::models {

Array vgg(const Scope& scope, const Array& x, const VggOptions& options) {
  check_image("vgg", x, std::int64_t{1} << options.blocks.size());
  Array h = x;
  for (std::size_t block = 0; block < options.blocks.size(); ++block) {
    const std::int64_t filters = std::min<std::int64_t>(512, std::int64_t{64} << std::min<std::size_t>(block, 3));
    for (std::int64_t i = 1; i <= options.blocks[block]; ++i) {
      const std::string name = "block" + std::to_string(block + 1) + "_conv" + std::to_string(i);
      h = relu(convolved(scope, name, h, {.filters = filters, .kernel = 3, .use_bias = true}));
    }
    h = max_pool2d(h, {2, 2});
  }
  h = flatten(h);
  for (const char* name : {"fc1", "fc2"}) {
    h = relu(dense(scope[name], h, {.units = options.units, .kernel_initializer = initializers::he_normal()}));
  }
  return classes_of_features(scope, h, options.classes, options.head);
}

}  // namespace lockstep::models
