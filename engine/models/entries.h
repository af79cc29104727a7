#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include <lockstep/export.h>
#include <lockstep/models.h>

// Tables of models by name, for `find` and `find_image_classifier`.
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

/// The entry of that name. Throws ValueError listing the names.
LOCKSTEP_API const ModelEntry& entry_named(std::span<const ModelEntry> entries, std::string_view name);

}  // namespace lockstep::models
