#include <lockstep/layers.h>
#include <lockstep/models.h>

namespace lockstep::models {

namespace {

Array conv_norm(const Scope& scope, const Array& x, std::int64_t filters, std::int64_t kernel, std::int64_t stride) {
  const Array y = conv2d(scope["conv"], x,
                         {.filters = filters,
                          .kernel = {kernel, kernel},
                          .strides = {stride, stride},
                          .padding = Padding::half,
                          .use_bias = false,
                          .kernel_initializer = initializers::he_normal()});
  return batch_norm(scope["norm"], y, {.momentum = 0.9, .epsilon = 1e-5});
}

Array residual_block(const Scope& scope, const Array& x, std::int64_t filters, std::int64_t stride) {
  const Array h = relu(conv_norm(scope["first"], x, filters, 3, stride));
  const Array y = conv_norm(scope["second"], h, filters, 3, 1);
  const bool projected = stride != 1 || x.dim(-1) != filters;
  return relu(y + (projected ? conv_norm(scope["shortcut"], x, filters, 1, stride) : x));
}

}  // namespace

Array resnet(const Scope& scope, const Array& x, const ResnetOptions& options) {
  Array h = relu(conv_norm(scope["stem"], x, options.filters.at(0), 3, 1));
  for (std::size_t stage = 0; stage < options.filters.size(); ++stage) {
    for (std::int64_t block = 0; block < options.blocks; ++block) {
      const Scope s = scope["stage_" + std::to_string(stage)]["block_" + std::to_string(block)];
      h = residual_block(s, h, options.filters[stage], stage > 0 && block == 0 ? 2 : 1);
    }
  }
  return dense(scope["head"], global_avg_pool2d(h), {.units = options.classes});
}

Array resnet18(const Scope& scope, const Array& x, std::int64_t classes) {
  return resnet(scope, x, {.classes = classes, .filters = {64, 128, 256, 512}, .blocks = 2});
}

}  // namespace lockstep::models
