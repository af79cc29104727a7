#include <optional>
#include <string>
#include <utility>

#include <lockstep/error.h>

#include "engine/vision/models/image_layers.h"

namespace lockstep::models {
namespace {

/// One cell's layers: their names end with the cell's.
class Cell {
 public:
  Cell(const Scope& scope, std::string name, std::int64_t filters)
      : scope_(scope), name_(std::move(name)), filters_(filters) {}

  /// What came before x, with x's extents and this cell's filters; x itself in front of all.
  Array adjusted(const std::optional<Array>& before, const Array& x) const {
    if (!before) return x;
    if (before->dim(2) != x.dim(2)) {
      const Array p = relu(*before);
      // The second half of the filters reads the pixels that the first one steps over.
      const Array beside = pad(p, 0.0, {0, -1, -1, 0}, {0, 1, 1, 0});
      const Array both = concatenate({projected("adjust_conv_1", every_other(p), filters_ / 2),
                                      projected("adjust_conv_2", every_other(beside), filters_ / 2)},
                                     -1);
      return normalized("adjust_bn", both);
    }
    if (before->dim(-1) == filters_) return *before;
    return normalized("adjust_bn", projected("adjust_conv_projection", relu(*before), filters_));
  }

  Array squeezed(const std::string& kind, const Array& x) const {
    return normalized(kind + "_bn_1", projected(kind + "_conv_1", relu(x), filters_));
  }

  /// Twice relu, a separable convolution and a normalization; the first one steps.
  Array separable(const std::string& place, const Array& x, std::int64_t kernel, std::int64_t stride = 1) const {
    Array y = x;
    for (const char* number : {"1", "2"}) {
      const std::string layer = std::string("separable_conv_") + number;
      y = separable_conv(scope_[layer + "_" + place + "_" + name_], relu(y),
                         {.filters = filters_, .kernel = {kernel}, .strides = {stride}, .use_bias = false});
      y = normalized(layer + "_bn_" + place, y);
      stride = 1;
    }
    return y;
  }

 private:
  static Array every_other(const Array& x) {
    return slice(x, {0, 0, 0, 0}, {x.dim(0), x.dim(1), x.dim(2), x.dim(3)}, {1, 2, 2, 1});
  }
  Array projected(const std::string& layer, const Array& x, std::int64_t filters) const {
    return convolved(scope_, layer + "_" + name_, x, {.filters = filters});
  }
  Array normalized(const std::string& layer, const Array& x) const {
    return batch_norm(scope_[layer + "_" + name_], x, {.momentum = 0.9997});
  }

  const Scope& scope_;
  std::string name_;
  std::int64_t filters_;
};

/// Figure 4 of the paper, the cell on the left.
Array normal_cell(const Scope& scope, const std::string& name, const Array& x, const std::optional<Array>& before,
                  std::int64_t filters) {
  const Cell cell(scope, name, filters);
  const Array p = cell.adjusted(before, x);
  const Array h = cell.squeezed("normal", x);
  const Array first = cell.separable("normal_left1", h, 5) + cell.separable("normal_right1", p, 3);
  const Array second = cell.separable("normal_left2", p, 5) + cell.separable("normal_right2", p, 3);
  const Array fifth = cell.separable("normal_left5", h, 3) + h;
  return concatenate(
      {p, first, second, means_of_neighbours(h) + p, means_of_neighbours(p) + means_of_neighbours(p), fifth}, -1);
}

/// The cell on the right, which halves the image.
Array reduction_cell(const Scope& scope, const std::string& name, const Array& x, const std::optional<Array>& before,
                     std::int64_t filters) {
  const Cell cell(scope, name, filters);
  const Array p = cell.adjusted(before, x);
  const Array h = cell.squeezed("reduction", x);
  // Zeros around it, that count: as many as a convolution with a step has.
  const Array framed = pad(h, 0.0, {0, h.dim(1) % 2, h.dim(2) % 2, 0}, {0, 1, 1, 0});
  const Array largest = largest_of_neighbours(framed);
  const Array means = avg_pool2d(framed, {.window = {3, 3}, .strides = {2, 2}});
  const Array first = cell.separable("reduction_left1", h, 5, 2) + cell.separable("reduction_right1", p, 7, 2);
  const Array second = largest + cell.separable("reduction_right2", p, 7, 2);
  const Array third = means + cell.separable("reduction_right3", p, 5, 2);
  const Array fifth = cell.separable("reduction_left4", first, 3) + largest;
  return concatenate({second, third, second + means_of_neighbours(first), fifth}, -1);
}

}  // namespace

Array nasnet(const Scope& scope, const Array& x, const NasnetOptions& options) {
  check_image("nasnet", x, 32);
  if (options.filters < 96 || options.filters % 96 != 0 || options.blocks < 1) {
    throw ValueError("[nasnet] filters is " + std::to_string(options.filters) + ", blocks " +
                     std::to_string(options.blocks) + "; give a multiple of 96, and 1 block or more");
  }
  const std::int64_t filters = options.filters / 24;
  Array h = conv2d(scope["stem_conv1"], x,
                   {.filters = options.stem_filters,
                    .kernel = {3, 3},
                    .strides = {2, 2},
                    .padding = Padding::valid,
                    .use_bias = false,
                    .kernel_initializer = initializers::he_normal()});
  h = batch_norm(scope["stem_bn1"], h, {.momentum = 0.9997});
  std::optional<Array> before;
  const auto next = [&](const Array& result) { before = std::exchange(h, result); };
  next(reduction_cell(scope, "stem_1", h, before, filters / 4));
  next(reduction_cell(scope, "stem_2", h, before, filters / 2));
  for (std::int64_t stage = 0; stage < 3; ++stage) {
    const std::int64_t wide = filters << stage, first = stage * options.blocks + (stage > 0 ? 1 : 0);
    if (stage > 0) {
      const std::optional<Array> skipped = before;
      next(reduction_cell(scope, "reduce_" + std::to_string(stage * options.blocks), h, before, wide));
      if (options.skip_reduction) before = skipped;
    }
    for (std::int64_t i = 0; i < options.blocks; ++i) {
      next(normal_cell(scope, std::to_string(first + i), h, before, wide));
    }
  }
  return classes_of(scope, relu(h), options.classes, options.head);
}

}  // namespace lockstep::models
