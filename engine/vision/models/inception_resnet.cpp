#include <string>
#include <vector>

#include "engine/vision/models/numbered_convolutions.h"

namespace lockstep::models {
namespace {

/// Branches of windows, each from x on, joined.
Array branched(Numbered& conv, const Array& x, const std::vector<std::vector<Window>>& branches) {
  std::vector<Array> ends;
  for (const std::vector<Window>& windows : branches) ends.push_back(conv(x, windows));
  return concatenate(ends, -1);
}

/// Blocks of one kind, numbered from 1 on: so much of their branches is added to what goes past them.
struct Residual {
  std::string name;
  std::int64_t count = 0;
  double share = 1;
  std::vector<std::vector<Window>> branches;
};
Array residual_blocks(const Scope& scope, Numbered& conv, Array x, const Residual& how, bool last_is_linear = false) {
  for (std::int64_t i = 1; i <= how.count; ++i) {
    const bool is_linear = last_is_linear && i == how.count;
    const Array up = convolved(scope, how.name + "_" + std::to_string(i) + "_conv", branched(conv, x, how.branches),
                               {.filters = x.dim(-1), .use_bias = true});
    x = x + up * (is_linear ? 1 : how.share);
    if (!is_linear) x = relu(x);
  }
  return x;
}

}  // namespace

Array inception_resnet_v2(const Scope& scope, const Array& x, const InceptionResnetV2Options& options) {
  check_image("inception_resnet_v2", x, 75);
  constexpr Padding valid = Padding::valid;
  Numbered conv(scope);
  Array h = inception_stem(conv, x);
  const Array small = branched(conv, h, {{{96, 1, 1}}, {{48, 1, 1}, {64, 5, 5}}, {{64, 1, 1}, {96, 3, 3}, {96, 3, 3}}});
  h = concatenate({small, conv(means_of_neighbours(h), Window{64, 1, 1})}, -1);
  h = residual_blocks(
      scope, conv, h,
      {"block35", 10, 0.17, {{{32, 1, 1}}, {{32, 1, 1}, {32, 3, 3}}, {{32, 1, 1}, {48, 3, 3}, {64, 3, 3}}}});
  const Array first = branched(conv, h, {{{384, 3, 3, 2, valid}}, {{256, 1, 1}, {256, 3, 3}, {384, 3, 3, 2, valid}}});
  h = concatenate({first, largest_of_neighbours(h)}, -1);
  h = residual_blocks(scope, conv, h, {"block17", 20, 0.1, {{{192, 1, 1}}, {{128, 1, 1}, {160, 1, 7}, {192, 7, 1}}}});
  const Array second = branched(conv, h,
                                {{{256, 1, 1}, {384, 3, 3, 2, valid}},
                                 {{256, 1, 1}, {288, 3, 3, 2, valid}},
                                 {{256, 1, 1}, {288, 3, 3}, {320, 3, 3, 2, valid}}});
  h = concatenate({second, largest_of_neighbours(h)}, -1);
  h = residual_blocks(scope, conv, h, {"block8", 10, 0.2, {{{192, 1, 1}}, {{192, 1, 1}, {224, 1, 3}, {256, 3, 1}}}},
                      true);
  h = convolved(scope, "conv_7b", h, {.filters = 1536});
  h = relu(batch_norm(scope["conv_7b_bn"], h, {.scale = false}));
  return classes_of(scope, h, options.classes, options.head);
}

}  // namespace lockstep::models
