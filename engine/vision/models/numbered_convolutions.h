#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/vision/models/image_layers.h"

// What networks of many windows are written in.
namespace lockstep::models {

struct Window {
  std::int64_t filters, height, width;
  std::int64_t stride = 1;
  Padding padding = Padding::same;
};

/// Convolutions, each with a normalization and relu, numbered as Keras numbers layers without a name.
class Numbered {
 public:
  explicit Numbered(const Scope& scope) : scope_(scope) {}

  Array operator()(const Array& x, const Window& w) {
    const std::string ending = number_ == 0 ? "" : "_" + std::to_string(number_);
    ++number_;
    const Array y = conv2d(scope_["conv2d" + ending], x,
                           {.filters = w.filters,
                            .kernel = {w.height, w.width},
                            .strides = {w.stride, w.stride},
                            .padding = w.padding,
                            .use_bias = false,
                            .kernel_initializer = initializers::he_normal()});
    return relu(batch_norm(scope_["batch_normalization" + ending], y, {.scale = false}));
  }
  Array operator()(Array x, const std::vector<Window>& windows) {
    for (const Window& w : windows) x = (*this)(x, w);
    return x;
  }

 private:
  const Scope& scope_;
  int number_ = 0;
};

/// What Inception networks begin with: an image of an eighth of the extents, 192 channels.
Array inception_stem(Numbered& conv, const Array& x);

}  // namespace lockstep::models
