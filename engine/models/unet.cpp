#include <string>

#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/models.h>

namespace lockstep::models {

namespace {

Array two_convolutions(const Scope& scope, Array h, std::int64_t filters) {
  for (const char* name : {"first", "second"}) {
    const Array y = conv2d(scope[name]["conv"], h,
                           {.filters = filters, .use_bias = false, .kernel_initializer = initializers::he_normal()});
    h = relu(batch_norm(scope[name]["norm"], y, {.momentum = 0.9, .epsilon = 1e-5}));
  }
  return h;
}

}  // namespace

Array unet(const Scope& scope, const Array& x, const UnetOptions& options) {
  const std::size_t levels = options.filters.size();
  const std::int64_t least = levels == 0 ? 0 : std::int64_t{1} << (levels - 1);
  if (x.ndim() != 4 || least == 0 || x.dim(1) % least != 0 || x.dim(2) % least != 0) {
    throw ShapeError("[unet] the input is " + to_string(x.type()) + " and filters has " + std::to_string(levels) +
                     " numbers; give images [N, H, W, C] whose height and width are multiples of " +
                     std::to_string(least));
  }
  std::vector<Array> kept;
  Array h = x;
  for (std::size_t level = 0; level < levels; ++level) {
    if (level > 0) h = max_pool2d(h, {2, 2});
    h = two_convolutions(scope["down_" + std::to_string(level)], h, options.filters[level]);
    kept.push_back(h);
  }
  for (std::size_t level = levels - 1; level-- > 0;) {
    const Scope s = scope["up_" + std::to_string(level)];
    h = conv_transpose(s["upsample"], h, {.filters = options.filters[level], .kernel = {2, 2}, .strides = {2, 2}});
    h = two_convolutions(s, concatenate({kept[level], h}, -1), options.filters[level]);
  }
  return options.head ? conv2d(scope["head"], h, {.filters = options.classes, .kernel = {1, 1}}) : h;
}

}  // namespace lockstep::models
