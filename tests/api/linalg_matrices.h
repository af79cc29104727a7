#pragma once

#include <vector>

#include <lockstep/array.h>
#include <lockstep/elementwise.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

// The matrices on which factors, solutions and their derivatives are compared.
namespace lockstep::tests {

inline Array matrix(const std::vector<double>& elements, const Shape& shape) { return array(elements, shape); }

inline const Array general = matrix({2, -1, 0.5, 0.3, 1.5, -2, -1.2, 0.7, 3}, {3, 3});
inline const Array tall = matrix({1, 2, 3, -1, 0.5, 4}, {3, 2});
inline const Array wide = transpose(tall);
inline const Array larger = matrix({2, -1, 0.5, 1, 0.3, 1.5, -2, 0, -1.2, 0.7, 3, 0.4, 1, 0.2, -0.6, 2.5}, {4, 4});

}  // namespace lockstep::tests
