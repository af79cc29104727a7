#pragma once

// What the gamma and beta functions share.
namespace lockstep::backend::special {

/// mu - log(1 + mu) without cancellation near 0.
double less_log1p(double mu);
/// lgamma(a + 1) less Stirling's (a + 1/2) log(a) - a + log(2 pi) / 2.
double stirling_rest(double a);

/// A number and its derivative.
struct Dual {
  double value;
  double slope;
};
inline Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.slope + b.slope}; }
inline Dual operator-(Dual a, Dual b) { return {a.value - b.value, a.slope - b.slope}; }
inline Dual operator*(Dual a, Dual b) { return {a.value * b.value, a.slope * b.value + a.value * b.slope}; }
inline Dual operator/(Dual a, Dual b) {
  const double quotient = a.value / b.value;
  return {quotient, (a.slope - quotient * b.slope) / b.value};
}

}  // namespace lockstep::backend::special
