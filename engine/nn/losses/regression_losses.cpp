#include <cmath>
#include <numbers>

#include <lockstep/elementwise.h>
#include <lockstep/losses_regression.h>
#include <lockstep/ops.h>

#include "engine/nn/losses/loss_operands.h"

namespace lockstep {
namespace {

/// Predictions less targets, in rows that count: one choice, not one of each operand.
Array error_of(std::string_view loss, const Array& predictions, const Array& targets, const Array& weight) {
  const auto [x, y] = nn::number_operands({loss, Array()}, predictions, targets);
  return nn::counted(x - y, weight);
}

/// Exact near 0, where the difference of |x| and log(2) is not.
Array log_cosh_of(const Array& x) {
  const Array size = abs(x), near = size < 1;
  const Array half = sinh(0.5 * where(near, x, 0));
  const Array far = where(near, 1, size);
  return where(near, log1p(2 * half * half), far - std::numbers::ln2 + log1p(exp(-2 * far)));
}

}  // namespace

Weighted mean_squared_error(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight) {
  return weighted(square(error_of("mean_squared_error", predictions, targets, weight)), weight);
}

Weighted mean_absolute_error(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight) {
  constexpr std::string_view name = "mean_absolute_error";
  if (!is_complex(predictions.dtype())) return weighted(abs(error_of(name, predictions, targets, weight)), weight);
  nn::check_equal_shapes(name, predictions, targets);
  return weighted(abs(nn::counted(predictions - convert(targets, predictions.dtype()), weight)), weight);
}

Weighted mean_absolute_percentage_error(const ArrayOperand& predictions, const ArrayOperand& targets,
                                        const Array& weight) {
  const auto [x, y] = nn::number_operands({"mean_absolute_percentage_error", weight}, predictions, targets);
  return weighted(100 * abs((y - x) / maximum(abs(y), nn::smallest)), weight);
}

Weighted mean_squared_logarithmic_error(const ArrayOperand& predictions, const ArrayOperand& targets,
                                        const Array& weight) {
  const auto [x, y] = nn::number_operands({"mean_squared_logarithmic_error", weight}, predictions, targets);
  const auto logarithm = [](const Array& v) { return log1p(where(v <= 0, 0, v)); };  // NaN stays
  return weighted(square(logarithm(x) - logarithm(y)), weight);
}

Weighted huber(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight, double delta) {
  nn::check_option(delta > 0, "huber", "delta", delta, "above 0");
  const Array error = error_of("huber", predictions, targets, weight);
  // Not by |error|, which has no second derivative at 0.
  const Array size = abs(error), near = size <= delta;
  const Array inside = 0.5 * square(where(near, error, 0)), outside = delta * (size - 0.5 * delta);
  return weighted(where(near, inside, outside), weight);
}

Weighted log_cosh(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight) {
  return weighted(log_cosh_of(error_of("log_cosh", predictions, targets, weight)), weight);
}

Weighted quantile_loss(const ArrayOperand& predictions, const ArrayOperand& targets, double q, const Array& weight) {
  nn::check_option(q > 0 && q < 1, "quantile_loss", "q", q, "in (0, 1)");
  const Array below = -error_of("quantile_loss", predictions, targets, weight);
  return weighted(where(below >= 0, q * below, (q - 1) * below), weight);
}

Weighted poisson(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight,
                 const PoissonOptions& options) {
  nn::check_option(options.epsilon >= 0, "poisson", "epsilon", options.epsilon, "0 or more");
  const auto [x, y] = nn::number_operands({"poisson", weight}, predictions, targets);
  // A count of 0 costs the rate, whatever its logarithm is.
  const Array none = y == 0;
  const auto counted = [&](const Array& log_rate) { return y * where(none & isinf(log_rate), 0, log_rate); };
  if (options.log_rate) return weighted(exp(x) - counted(x), weight);
  const Array rate = x + options.epsilon;
  return weighted(x - counted(log(where(none & (rate == 0), 1, rate))), weight);
}

Weighted gaussian_negative_log_likelihood(const ArrayOperand& mean, const ArrayOperand& variance,
                                          const ArrayOperand& targets, const Array& weight, double epsilon) {
  constexpr std::string_view name = "gaussian_negative_log_likelihood";
  nn::check_option(epsilon > 0, name, "epsilon", epsilon, "above 0");
  const auto [x, y] = nn::number_operands({name, weight}, mean, targets);
  const auto [v, unused] = nn::number_operands({name, weight}, variance, targets);
  const Array spread = where(v <= epsilon, epsilon, v);  // NaN stays
  return weighted(0.5 * (log(spread) + square(x - y) / spread), weight);
}

}  // namespace lockstep
