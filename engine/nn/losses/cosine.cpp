#include "engine/nn/losses/cosine.h"

#include <string>

#include <lockstep/error.h>

namespace lockstep::nn {

Array unit_vectors(const Array& x) {
  constexpr double shortest = 1e-6;
  // Relative to the largest element: squares neither overflow nor vanish. It passes no derivative: the result does not
  // depend on it.
  const Array largest = stop_gradient(maximum(max(abs(x), Axes{-1}, true), shortest));
  const Array scaled = x / largest;
  const Array squares = sum(square(scaled), Axes{-1}, true);
  const Array least = square(shortest / largest);
  return scaled * rsqrt(where(squares > least, squares, least));
}

Array cosine_of(const LossCall& of, const Array& a, const Array& b) {
  const auto [x, y] = number_operands(of, a, b);
  if (x.ndim() < 2) {
    throw ShapeError("[" + std::string(of.name) + "] the operands are " + to_string(a.type()) +
                     "; give vectors along the last dimension, [B, ..., D]");
  }
  return sum(unit_vectors(x) * unit_vectors(y), Axes{-1});
}

}  // namespace lockstep::nn
