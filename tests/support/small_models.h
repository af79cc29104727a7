#pragma once

#include <string_view>
#include <vector>

#include <lockstep/models.h>

namespace lockstep::tests {

/// Names of the models of the core that train in a test's time.
inline std::vector<std::string_view> small_models() {
  std::vector<std::string_view> small;
  for (const std::string_view name : models::names()) {
    if (name != "resnet101" && name != "resnet152") small.push_back(name);
  }
  return small;
}

}  // namespace lockstep::tests
