#include <string>

#include "engine/vision/models/image_layers.h"

namespace lockstep::models {
namespace {

Array named_batch_norm(const Scope& scope, const std::string& name, const Array& x) {
  return batch_norm(scope[name], x);
}

Array separable(const Scope& scope, const std::string& name, const Array& x, std::int64_t filters) {
  const Array y = separable_conv(
      scope[name], x,
      {.filters = filters, .kernel = {3}, .use_bias = false, .kernel_initializer = initializers::he_normal()});
  return named_batch_norm(scope, name + "_bn", y);
}

/// Halves the image, beside a shortcut that steps; shortcut `number` has the names of Keras' layers without one.
Array halved(const Scope& scope, const std::string& name, const Array& x, std::int64_t first, std::int64_t second,
             int number) {
  const std::string ending = number == 0 ? "" : "_" + std::to_string(number);
  const Array shortcut = named_batch_norm(scope, "batch_normalization" + ending,
                                          convolved(scope, "conv2d" + ending, x, {.filters = second, .stride = 2}));
  Array y = separable(scope, name + "_sepconv1", number == 0 ? x : relu(x), first);
  y = separable(scope, name + "_sepconv2", relu(y), second);
  return shortcut + max_pool2d(y, {.window = {3, 3}, .strides = {2, 2}, .padding = Padding::same});
}

}  // namespace

Array xception(const Scope& scope, const Array& x, const XceptionOptions& options) {
  check_image("xception", x, 71);
  Array h = convolved(scope, "block1_conv1", x, {.filters = 32, .kernel = 3, .stride = 2, .padding = Padding::valid});
  h = relu(named_batch_norm(scope, "block1_conv1_bn", h));
  h = convolved(scope, "block1_conv2", h, {.filters = 64, .kernel = 3, .padding = Padding::valid});
  h = relu(named_batch_norm(scope, "block1_conv2_bn", h));
  h = halved(scope, "block2", h, 128, 128, 0);
  h = halved(scope, "block3", h, 256, 256, 1);
  h = halved(scope, "block4", h, 728, 728, 2);
  std::int64_t number = 5;
  for (; number < 5 + options.middle; ++number) {
    Array y = h;
    for (const char* layer : {"_sepconv1", "_sepconv2", "_sepconv3"}) {
      y = separable(scope, "block" + std::to_string(number) + layer, relu(y), 728);
    }
    h = h + y;
  }
  h = halved(scope, "block" + std::to_string(number), h, 728, 1024, 3);
  const std::string last = "block" + std::to_string(number + 1);
  h = relu(separable(scope, last + "_sepconv1", h, 1536));
  h = relu(separable(scope, last + "_sepconv2", h, 2048));
  return classes_of(scope, h, options.classes, options.head);
}

}  // namespace lockstep::models
