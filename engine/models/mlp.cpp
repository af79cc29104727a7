#include <string>

#include <lockstep/layers.h>
#include <lockstep/models.h>

#include "engine/models/blocks.h"

namespace lockstep::models {

Array mlp(const Scope& scope, const Array& x, const MlpOptions& options) {
  check_depth("mlp", "layers", options.layers);
  Array h = flatten(x);
  for (std::int64_t i = 0; i < options.layers; ++i) {
    h = relu(dense(scope["dense_" + std::to_string(i)], h,
                   {.units = options.units, .kernel_initializer = initializers::he_normal()}));
  }
  return options.head ? dense(scope["head"], h, {.units = options.classes}) : h;
}

}  // namespace lockstep::models
