#include "engine/optim/inner_products.h"

#include <lockstep/ops.h>

#include "engine/optim/moments.h"

namespace lockstep::optim {

Array sum_over_leaves(const Tree& tree) {
  Array total = full({}, 0.0, float32);
  for (const Array& leaf : tree.leaves()) total = total + sum(wide(leaf));
  return total;
}

Array inner_product(const Tree& a, const Tree& b) {
  return sum_over_leaves(map_pairs([](const Array& x, const Array& y) { return wide(x) * wide(y); }, a, b));
}

Array squared_norm(const Tree& updates) {
  return sum_over_leaves(map([](const Array& u) { return magnitude_squared(wide(u)); }, updates));
}

Tree plus(const Tree& a, const Array& factor, const Tree& b) {
  return map_pairs([&](const Array& x, const Array& y) { return wide(x) + times(factor, wide(y)); }, a, b);
}

DType dtype_of_sums(const Tree& params) { return squared_norm(widened(params)).dtype(); }

}  // namespace lockstep::optim
