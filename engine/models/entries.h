#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <lockstep/models.h>

// What `find` knows.
namespace lockstep::models {

using Made = Model<Array, Array>;

struct ModelEntry {
  std::string_view name;
  Made (*make)(std::int64_t classes, OptionsByName& options);
};

/// A model of its options.
template <class Options>
Made made(Array (*model)(const Scope&, const Array&, const Options&), const Options& options) {
  return Made([model, options](Scope& s, const Array& x) { return model(s, x, options); });
}

/// The classifiers of models_image.h at their sizes, by name.
std::span<const ModelEntry> image_entries();

}  // namespace lockstep::models
