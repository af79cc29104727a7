#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <lockstep/backend/samplers.h>
#include <lockstep/backend/threefry.h>

#include "engine/numerics/gamma_functions.h"

namespace lockstep::backend::samplers {

namespace {

/// Coefficients by ascending power.
template <std::size_t N>
double horner(const std::array<double, N>& coefficients, double x) {
  double sum = 0;
  for (std::size_t i = N; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

/// The x below which a standard normal variate lies with probability 1/2 + q.
/// Wichura, "Algorithm AS 241: the percentage points of the normal distribution", Applied Statistics 37 (1988).
double normal_quantile(double q) {
  static constexpr std::array<double, 8> a = {
      3.3871328727963666080e0,  1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
      4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3};
  static constexpr std::array<double, 8> b = {1.0,
                                              4.2313330701600911252e+1,
                                              6.8718700749205790830e+2,
                                              5.3941960214247511077e+3,
                                              2.1213794301586595867e+4,
                                              3.9307895800092710610e+4,
                                              2.8729085735721942674e+4,
                                              5.2264952788528545610e+3};
  static constexpr std::array<double, 8> c = {
      1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
      1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr std::array<double, 8> d = {1.0,
                                              2.05319162663775882187e0,
                                              1.67638483018380384940e0,
                                              6.89767334985100004550e-1,
                                              1.48103976427480074590e-1,
                                              1.51986665636164571966e-2,
                                              5.47593808499534494600e-4,
                                              1.05075007164441684324e-9};
  static constexpr std::array<double, 8> e = {
      6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,  2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr std::array<double, 8> f = {1.0,
                                              5.99832206555887937690e-1,
                                              1.36929880922735805310e-1,
                                              1.48753612908506148525e-2,
                                              7.86869131145613259100e-4,
                                              1.84631831751005468180e-5,
                                              1.42151175831644588870e-7,
                                              2.04426310338993978564e-15};
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * horner(a, r) / horner(b, r);
  }
  const double r = std::sqrt(-std::log(0.5 - std::abs(q)));
  const double tail = r <= 5 ? horner(c, r - 1.6) / horner(d, r - 1.6)  //
                             : horner(e, r - 5) / horner(f, r - 5);
  return std::copysign(tail, q);
}

/// Key `i` of a split.
Key child(Key key, std::uint32_t i) { return threefry2x32(key, {0, i}); }

/// Uniform on [0, 1).
template <class T>
T uniform(Key key) {
  const std::uint64_t bits = threefry_bits(key, 0);
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<double>((bits >> 12) | 0x3ff0000000000000U) - 1;
  } else {
    const auto word = static_cast<std::uint32_t>(threefry_draw(bits, 32));
    return std::bit_cast<float>((word >> 9) | 0x3f800000U) - 1;
  }
}

template <class T>
T normal(Key key) {
  const T low = T(-1) + std::numeric_limits<T>::epsilon() / 2;
  const T u = std::max(low, uniform<T>(key) * (T(1) - low) + low);
  return static_cast<T>(normal_quantile(static_cast<double>(u) / 2));
}

/// d * v is a gamma variate of shape d + 1/3 >= 1.
template <class T>
T draw_cube(Key key, T d) {
  const T c = T(1.0 / 3) / std::sqrt(d);
  while (true) {
    Key normals = child(key, 1);
    const T u = uniform<T>(child(key, 2));
    key = child(key, 0);
    T x, v;
    do {
      x = normal<T>(child(normals, 1));
      normals = child(normals, 0);
      v = 1 + x * c;
    } while (v <= 0);
    x *= x;
    v = v * v * v;
    const bool outside = u >= 1 - T(0.0331) * (x * x);
    if (!(outside && std::log(u) >= x * T(0.5) + d * ((1 - v) + std::log(v)))) return v;
  }
}

}  // namespace

template <class T>
T gamma(Key key, T a, bool log_space) {
  if (!(a >= 0)) return std::numeric_limits<T>::quiet_NaN();
  if (std::isinf(a)) return a;
  const bool boosted = a < 1;
  const T d = (boosted ? a + 1 : a) - T(1.0 / 3);
  const T v = draw_cube(child(key, 0), d);
  const T u = uniform<T>(child(key, 1));
  if (log_space) {
    const T log_sample = std::log1p(-u);
    const T boost = boosted && log_sample != 0 ? log_sample * (1 / a) : T(0);
    return std::log(d) + std::log(v) + boost;
  }
  return d * v * (boosted ? std::pow(1 - u, 1 / a) : T(1));
}

template float gamma(Key key, float a, bool log_space);
template double gamma(Key key, double a, bool log_space);

namespace {

/// The derivative of log Gamma.
double log_gamma_slope(double x) {
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double r = 1 / (x * x);
  static constexpr std::array<double, 7> series = {0.0,        1.0 / 12,  -1.0 / 120,    1.0 / 252,
                                                   -1.0 / 240, 5.0 / 660, -691.0 / 32760};
  return sum + std::log(x) - 0.5 / x - horner(series, r);
}

/// P(a, x) / (x^a exp(-x) / Gamma(a + 1)), the sum of x^n / ((a + 1) ... (a + n)).
special::Dual lower_series(double a, double x) {
  special::Dual term{1, 0};
  special::Dual sum = term;
  for (double n = 1; n < 1e5; ++n) {
    const double factor = x / (a + n);
    term = {term.value * factor, (term.slope - term.value / (a + n)) * factor};
    sum = {sum.value + term.value, sum.slope + term.slope};
    if (term.value < 1e-17 * sum.value && std::abs(term.slope) < 1e-17 * std::abs(sum.slope)) break;
  }
  return sum;
}

/// (1 - P(a, x)) / (x^a exp(-x) / Gamma(a)), a continued fraction by its convergents p / q.
/// Abramowitz, Stegun, "Handbook of mathematical functions", 6.5.31.
special::Dual upper_fraction(double a, double x) {
  special::Dual p_before{1, 0}, q_before{x, 0}, p{x + 1, 0};
  double z = x + 2 - a;
  special::Dual q{z * x, -x};
  special::Dual ratio{p.value / q.value, -p.value * q.slope / (q.value * q.value)};
  for (double n = 1; n < 1e5; ++n) {
    z += 2;
    const double y = n * (n + 1 - a);
    const auto next = [&](const special::Dual& now, const special::Dual& before) {
      return special::Dual{now.value * z - before.value * y,
                           now.slope * z - now.value - before.slope * y + before.value * n};
    };
    const special::Dual p_next = next(p, p_before), q_next = next(q, q_before);
    const double scale = 1 / q_next.value;
    const auto scaled = [scale](const special::Dual& d) { return special::Dual{d.value * scale, d.slope * scale}; };
    p_before = scaled(p);
    q_before = scaled(q);
    p = scaled(p_next);
    q = scaled(q_next);
    const special::Dual last = ratio;
    ratio = {p.value, p.slope - p.value * q.slope};
    if (std::abs(ratio.value - last.value) < 1e-16 * ratio.value &&
        std::abs(ratio.slope - last.slope) < 1e-15 * std::abs(ratio.slope)) {
      break;
    }
  }
  return ratio;
}

/// For large a, where x / a is nearly the cube of a normal variate (Wilson and Hilferty).
double large_grad(double a, double x) {
  const double root = std::cbrt(x / a);
  const double z = (root - 1 + 1 / (9 * a)) * 3 * std::sqrt(a);
  const double slope = 1 / (9 * a * a) - z / (6 * a * std::sqrt(a));
  return x / a + 3 * a * root * root * slope;
}

}  // namespace

double gamma_grad(double a, double sample, bool log_space) {
  const double x = log_space ? std::exp(sample) : sample;
  const double log_x = log_space ? sample : std::log(sample);
  if (std::isnan(sample) || !(a > 0)) return std::numeric_limits<double>::quiet_NaN();
  if (std::isinf(x) || std::isinf(a)) return log_space ? 0 : 1;
  if (!log_space && x == 0) return 0;
  double log_slope;  // of log(x)
  if (a > 1e5) {
    log_slope = large_grad(a, x) / x;
  } else if (x <= 1 || x <= a) {
    const special::Dual s = lower_series(a, x);
    log_slope = -(s.slope + s.value * (log_x - log_gamma_slope(a + 1))) / a;
  } else {
    const special::Dual s = upper_fraction(a, x);
    log_slope = s.slope + s.value * (log_x - log_gamma_slope(a));
  }
  return log_space ? log_slope : log_slope * x;
}

}  // namespace lockstep::backend::samplers
