#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <lockstep/model.h>

#include "engine/cli/entries.h"
#include "engine/cli/named_options.h"

namespace lockstep::cli {

using Made = Model<Array, Array>;

struct ModelEntry {
  std::string_view name;
  Made (*make)(std::int64_t classes, NamedOptions& options);
};

/// A model of its options.
template <class Options>
Made made(Array (*model)(const Scope&, const Array&, const Options&), const Options& options) {
  return Made([model, options](Scope& s, const Array& x) { return model(s, x, options); });
}

/// These and the classifiers of images of the literature, by name.
std::vector<ModelEntry> with_image_models(std::vector<ModelEntry> others);

}  // namespace lockstep::cli
