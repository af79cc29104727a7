#pragma once

#include <string_view>
#include <vector>

#include <lockstep/lockstep.h>

namespace lockstep::tests {

/// Names of the models of the core that train in a test's time.
inline std::vector<std::string_view> small_models() {
  std::vector<std::string_view> small;
  for (const std::string_view name : models::names()) {
    if (name != "resnet101" && name != "resnet152") small.push_back(name);
  }
  return small;
}

/// The model of that name; the residual networks with an eighth of the filters, in the same blocks: what holds of their
/// composition does not depend on the width.
inline Model<Array, Array> narrow_model(std::string_view name) {
  if (name != "resnet18" && name != "resnet50") return models::find(name);
  const bool bottleneck = name == "resnet50";
  return Model<Array, Array>([bottleneck](const Scope& s, const Array& x) {
    models::ResnetOptions options{.filters = {8, 16, 32, 64}, .bottleneck = bottleneck};
    if (bottleneck) {
      options.blocks = {3, 4, 6, 3};
    } else {
      options.blocks = {2};
    }
    return models::resnet(s, x, options);
  });
}

}  // namespace lockstep::tests
