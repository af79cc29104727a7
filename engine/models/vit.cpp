#include "engine/models/blocks.h"

namespace lockstep::models {

Array vit(const Scope& scope, const Array& x, const VitOptions& options) {
  const std::int64_t width = options.blocks.width;
  const Array h = patches_of(scope, x, options.patch, width, "vit");
  const Array y = transformer(scope, h + position_table(scope, h.dim(1), width, x.dtype()), options.blocks, false);
  const Array features = mean(y, Axes{1});
  return options.head ? dense(scope["head"], features, {.units = options.classes}) : features;
}

}  // namespace lockstep::models
