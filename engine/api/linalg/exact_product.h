#pragma once

#include <lockstep/array.h>

namespace lockstep::api {

/// x times a constant with what rounding the product, and the constant to x's dtype, loses: high + rest. For functions that
/// grow by a factor where their argument moves by a unit. x is float32 or float64; the rest is 0 where the product is not
/// finite.
struct Product {
  Array high, rest;
};
Product exact_product(const Array& x, long double constant);

}  // namespace lockstep::api
