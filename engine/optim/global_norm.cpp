#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>

#include "engine/optim/moments.h"
#include "engine/optim/scaled_norm.h"

namespace lockstep::optim {

Array global_norm(const Tree& tree) { return scaled_norm(tree).value(); }

GradientTransformation clip_by_global_norm(double max_norm) {
  if (!(max_norm > 0)) {
    throw ValueError(fmt::format("[clip_by_global_norm] the limit is {}; it must be above 0", max_norm));
  }
  auto update = [max_norm](const Tree& updates, const Tree& state, const Tree&) {
    const ScaledNorm norm = scaled_norm(updates);
    const Array exceeds = norm.value() > max_norm;
    // Two factors: the norm itself may be beyond the dtype.
    const Array one = ones_like(norm.root);
    const Array unscale = where(exceeds, one / norm.scale, one), factor = where(exceeds, max_norm / norm.root, one);
    Tree clipped = map(
        [&](const Array& u) {
          const Array x = wide(u);
          return x * convert(unscale, x.dtype()) * convert(factor, x.dtype());
        },
        updates);
    return std::pair(std::move(clipped), state);
  };
  return {[](const Tree&) { return Tree(); }, update};
}

}  // namespace lockstep::optim
