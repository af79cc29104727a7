// Sums of weighted products that lose nothing where they are added up.
#include "engine/nn/metrics/exact_sums.h"

#include <lockstep/ops.h>
#include <lockstep/reductions.h>

namespace lockstep::nn {
namespace {

/// x rounded to its first `53 - bits` bits. Veltkamp 1968.
Array leading_bits(const Array& x, int bits) {
  const Array scaled = x * static_cast<double>((std::int64_t{1} << bits) + 1);
  return scaled - (scaled - x);
}

/// a + b and the error of its rounding, whichever is larger. Knuth 1969.
TwoDoubles exact_total(const Array& a, const Array& b) {
  const Array total = a + b, of_b = total - a;
  return {total, (a - (total - of_b)) + (b - of_b)};
}

/// The same where a is the larger one.
TwoDoubles renormalized(const Array& a, const Array& b) {
  const Array total = a + b;
  return {total, b - (total - a)};
}

}  // namespace

TwoDoubles exact_product(const Array& a, const Array& b) {
  const Array product = a * b;
  const Array a_high = leading_bits(a, 27), b_high = leading_bits(b, 27);
  const Array a_low = a - a_high, b_low = b - b_high;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

TwoDoubles operator+(const TwoDoubles& a, const TwoDoubles& b) {
  const TwoDoubles high = exact_total(a.high, b.high), low = exact_total(a.low, b.low);
  const TwoDoubles first = renormalized(high.high, high.low + low.high);
  return renormalized(first.high, first.low + low.low);
}

TwoDoubles operator-(const TwoDoubles& a, const TwoDoubles& b) { return a + TwoDoubles{-b.high, -b.low}; }

TwoDoubles operator*(const TwoDoubles& a, const TwoDoubles& b) {
  const TwoDoubles product = exact_product(a.high, b.high);
  return renormalized(product.high, product.low + (a.high * b.low + a.low * b.high));
}

Array exact_sum(const TwoDoubles& x) {
  const Array first = leading_bits(x.high, 29);
  return stack({sum(first, Axes{0}), sum(x.high - first, Axes{0}), sum(x.low, Axes{0})}, 0);
}

TwoDoubles sum_of_parts(const Array& parts) {
  const TwoDoubles larger = exact_total(parts[0], parts[1]);
  return renormalized(larger.high, larger.low + parts[2]);
}

}  // namespace lockstep::nn
