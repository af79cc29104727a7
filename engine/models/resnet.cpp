#include <string>

#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/models.h>

#include "engine/models/blocks.h"

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

Array residual_block(const Scope& scope, const Array& x, std::int64_t filters, std::int64_t stride, bool bottleneck) {
  const std::int64_t results = bottleneck ? 4 * filters : filters;
  Array y =
      relu(bottleneck ? conv_norm(scope["first"], x, filters, 1, 1) : conv_norm(scope["first"], x, filters, 3, stride));
  if (bottleneck) y = relu(conv_norm(scope["second"], y, filters, 3, stride));
  y = bottleneck ? conv_norm(scope["third"], y, results, 1, 1) : conv_norm(scope["second"], y, results, 3, 1);
  const bool projected = stride != 1 || x.dim(-1) != results;
  return relu(y + (projected ? conv_norm(scope["shortcut"], x, results, 1, stride) : x));
}

}  // namespace

Array resnet(const Scope& scope, const Array& x, const ResnetOptions& options) {
  const std::size_t stages = options.filters.size();
  if (stages == 0 || (options.blocks.size() != 1 && options.blocks.size() != stages)) {
    throw ValueError("[resnet] filters has " + std::to_string(stages) + " numbers, blocks " +
                     std::to_string(options.blocks.size()) + "; give one of each for every stage, or one of blocks");
  }
  for (const std::int64_t blocks : options.blocks) check_depth("resnet", "blocks", blocks);
  Array h = relu(options.large_images ? conv_norm(scope["stem"], x, options.filters[0], 7, 2)
                                      : conv_norm(scope["stem"], x, options.filters[0], 3, 1));
  if (options.large_images) h = max_pool2d(h, {.window = {3, 3}, .strides = {2, 2}, .padding = Padding::half});
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const std::int64_t blocks = options.blocks[options.blocks.size() == 1 ? 0 : stage];
    for (std::int64_t block = 0; block < blocks; ++block) {
      const Scope s = scope["stage_" + std::to_string(stage)]["block_" + std::to_string(block)];
      h = residual_block(s, h, options.filters[stage], stage > 0 && block == 0 ? 2 : 1, options.bottleneck);
    }
  }
  h = global_avg_pool2d(h);
  return options.head ? dense(scope["head"], h, {.units = options.classes}) : h;
}

Array resnet18(const Scope& scope, const Array& x, const ResnetOptions& options) {
  ResnetOptions own = options;
  own.filters = {64, 128, 256, 512}, own.blocks = {2}, own.bottleneck = false;
  return resnet(scope, x, own);
}

namespace {

Array bottlenecks(const Scope& scope, const Array& x, ResnetOptions own, const std::vector<std::int64_t>& blocks) {
  own.filters = {64, 128, 256, 512}, own.blocks = blocks, own.bottleneck = true;
  return resnet(scope, x, own);
}

}  // namespace

Array resnet50(const Scope& scope, const Array& x, const ResnetOptions& options) {
  return bottlenecks(scope, x, options, {3, 4, 6, 3});
}

Array resnet101(const Scope& scope, const Array& x, const ResnetOptions& options) {
  return bottlenecks(scope, x, options, {3, 4, 23, 3});
}

Array resnet152(const Scope& scope, const Array& x, const ResnetOptions& options) {
  return bottlenecks(scope, x, options, {3, 8, 36, 3});
}

}  // namespace lockstep::models
