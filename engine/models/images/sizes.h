#pragma once

#include <span>
#include <string_view>

#include <lockstep/model.h>

namespace lockstep::models {

using BuildModel = Array (*)(const Scope&, const Array&);
struct ModelEntry {
  std::string_view name;
  BuildModel build;
};
/// The classifiers of models_image.h at their sizes, by name.
std::span<const ModelEntry> image_entries();

}  // namespace lockstep::models
