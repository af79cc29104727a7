#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/models.h>

#include "engine/models/blocks.h"

namespace lockstep::models {

Array lstm_classifier(const Scope& scope, const Array& x, const LstmClassifierOptions& options) {
  check_depth("lstm_classifier", "layers", options.layers);
  if (x.ndim() < 3) {
    throw ShapeError("[lstm_classifier] the input is " + to_string(x.type()) + "; give sequences [N, T, ...]");
  }
  Array h = reshape(x, {x.dim(0), x.dim(1), -1});
  for (std::int64_t i = 0; i < options.layers; ++i) {
    h = lstm(scope["lstm_" + std::to_string(i)], h, {.units = options.units});
  }
  const Array last = squeeze(slice_in_dim(h, x.dim(1) - 1, x.dim(1), 1), Axes{1});
  return options.head ? dense(scope["head"], last, {.units = options.classes}) : last;
}

}  // namespace lockstep::models
