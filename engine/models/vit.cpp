#include <lockstep/error.h>

#include "engine/models/blocks.h"

namespace lockstep::models {

Array vit(const Scope& scope, const Array& x, const VitOptions& options) {
  const std::int64_t patch = options.patch;
  if (x.ndim() != 4 || patch <= 0 || x.dim(1) % patch != 0 || x.dim(2) % patch != 0) {
    throw ShapeError("[vit] the input is " + to_string(x.type()) + " and patches have size " + std::to_string(patch) +
                     "; give images [N, H, W, C] whose height and width it divides");
  }
  const std::int64_t width = options.blocks.width;
  const Array patches = conv2d(scope["patches"], x,
                               {.filters = width,
                                .kernel = {patch, patch},
                                .strides = {patch, patch},
                                .padding = Padding::valid,
                                .kernel_initializer = initializers::lecun_normal()});
  const Array h = reshape(patches, {x.dim(0), -1, width});
  const Array y = transformer(scope, h + position_table(scope, h.dim(1), width, x.dtype()), options.blocks, false);
  return dense(scope["head"], mean(y, Axes{1}), {.units = options.classes});
}

}  // namespace lockstep::models
