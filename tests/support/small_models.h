#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include <lockstep/models.h>

namespace lockstep::tests {

/// Names of the models that take images of any size and train in a test's time: all but the classifiers of the literature,
/// which tests/golden/models holds by their weights and logits.
inline std::vector<std::string_view> small_models() {
  constexpr std::array large = {"convnext", "densenet", "efficientnet", "inception", "mobilenet",
                                "nasnet",   "resnet1",  "vgg",          "xception"};
  std::vector<std::string_view> small;
  for (const std::string_view name : models::names()) {
    const bool is_large = std::ranges::any_of(large, [&](const char* prefix) { return name.starts_with(prefix); });
    const bool is_18 = name == "resnet18";
    if ((!is_large || is_18) && !name.ends_with("_v2")) small.push_back(name);
  }
  return small;
}

}  // namespace lockstep::tests
