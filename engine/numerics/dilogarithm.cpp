#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include <lockstep/backend/special_functions.h>

namespace lockstep::backend::special {

namespace {

/// B(2k) / (2k + 1)!, k from 1 on.
constexpr std::array coefficients = {1.0 / 36,
                                     -1.0 / 3600,
                                     1.0 / 211680,
                                     -1.0 / 10886400,
                                     1.0 / 526901760,
                                     -4.0647616451442255e-11,
                                     8.9216910204564526e-13,
                                     -1.9939295860721076e-14,
                                     4.5189800296199182e-16,
                                     -1.0356517612181247e-17,
                                     2.3952186210261867e-19,
                                     -5.5817858743250093e-21};

/// At x = exp(-u), |u| < 1.4.
double in_logarithm(double u) {
  const double square = u * u;
  double sum = 0;
  for (std::size_t k = coefficients.size(); k-- > 0;) sum = sum * square + coefficients[k];
  return u * (1 - u / 4 + square * sum);
}

}  // namespace

double spence(double x) {
  constexpr double at_zero = std::numbers::pi * std::numbers::pi / 6;
  if (!(x >= 0)) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return at_zero;
  if (std::isinf(x)) return -x;
  const double logarithm = std::log(x);
  if (x < 0.25) return at_zero - logarithm * std::log1p(-x) - spence(1 - x);
  if (x <= 4) return in_logarithm(0 - logarithm);  // 0 of 1, not -0
  return -spence(1 / x) - logarithm * logarithm / 2;
}

}  // namespace lockstep::backend::special
