#include "engine/vision/models/image_layers.h"

#include <algorithm>

#include <lockstep/error.h>

namespace lockstep::models {

void check_image(const std::string& model, const Array& x, std::int64_t least) {
  if (x.ndim() == 4 && is_float(x.dtype()) && x.dim(1) >= least && x.dim(2) >= least) return;
  throw ShapeError("[" + model + "] the input is " + to_string(x.type()) +
                   "; give float images [N, H, W, C] of at least " + std::to_string(least) + " x " +
                   std::to_string(least) + " pixels");
}

Array convolved(const Scope& scope, const std::string& name, const Array& x, const Convolution& how) {
  return conv2d(scope[name], x,
                {.filters = how.filters,
                 .kernel = {how.kernel, how.kernel},
                 .strides = {how.stride, how.stride},
                 .padding = how.padding,
                 .use_bias = how.use_bias,
                 .kernel_initializer = initializers::he_normal()});
}

Array convolved_by_channel(const Scope& scope, const std::string& name, const Array& x, const Convolution& how) {
  return depthwise_conv(scope[name], x,
                        {.kernel = {how.kernel},
                         .strides = {how.stride},
                         .padding = how.padding,
                         .use_bias = how.use_bias,
                         .kernel_initializer = initializers::he_normal()});
}

Array means_of_neighbours(const Array& x) {
  return avg_pool2d(x, {.window = {3, 3}, .strides = {1, 1}, .padding = Padding::same});
}

Array largest_of_neighbours(const Array& x) { return max_pool2d(x, {.window = {3, 3}, .strides = {2, 2}}); }

Array classes_of_features(const Scope& scope, const Array& features, std::int64_t classes, bool head) {
  return head ? dense(scope["head"], features, {.units = classes}) : features;
}

Array classes_of(const Scope& scope, const Array& x, std::int64_t classes, bool head) {
  return classes_of_features(scope, global_avg_pool2d(x), classes, head);
}

std::int64_t multiple_of_8(double filters) {
  const auto nearest = std::max<std::int64_t>(8, static_cast<std::int64_t>(filters + 4) / 8 * 8);
  return static_cast<double>(nearest) < 0.9 * filters ? nearest + 8 : nearest;
}

Array excited(const Scope& scope, const Array& x, const Excitation& how) {
  const Array means = reshape(global_avg_pool2d(x), {x.dim(0), 1, 1, x.dim(-1)});
  const Array inside = how.inside(convolved(scope, how.first, means, {.filters = how.filters, .use_bias = true}));
  return x * how.gate(convolved(scope, how.second, inside, {.filters = x.dim(-1), .use_bias = true}));
}

Array with_rows_dropped(const Scope& scope, const Array& x, double rate) {
  if (rate == 0) return x;
  const Array rows = spatial_dropout(scope, reshape(x, {x.dim(0), -1, 1}), rate);  // of one channel: whole rows
  return reshape(rows, {x.dim(0), x.dim(1), x.dim(2), x.dim(3)});
}

}  // namespace lockstep::models
