#pragma once

namespace lockstep::backend {

/// a / b rounded up, of a >= 0, b > 0.
template <class T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}

/// The least multiple of `step` that is not less than `a`.
template <class T>
constexpr T round_up(T a, T step) {
  return ceil_div(a, step) * step;
}

}  // namespace lockstep::backend
