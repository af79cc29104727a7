#include <lockstep/error.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>

#include "engine/nn/losses/cosine.h"
#include "engine/nn/metrics/exact_sums.h"
#include "engine/nn/metrics/metric_sums.h"

namespace lockstep {
namespace {

/// The rows of `regression_sums`: parts of the sums of weights, of p, y, p^2, y^2 and p y, and the squared errors.
enum RegressionSum : std::int64_t { of_weights, of_p, of_y, of_p2, of_y2, of_py, all_exact_sums };
constexpr std::int64_t error_row = all_exact_sums * nn::parts_of_sum;

/// Weighted means over all rows, for each output: means of p and y, their variances and covariance, and the mean of
/// (p - y)^2. A variance that is all rounding of the squares is 0.
struct RegressionMoments {
  Array p, y, variance_p, variance_y, covariance, error2;
};

RegressionMoments moments_of(std::string_view metric, const Weighted& sums) {
  const Array total = nn::total_sums(metric, sums, error_row + 1, "regression_sums");
  const auto sum_of = [&](RegressionSum which) {
    const std::int64_t first = which * nn::parts_of_sum;
    return nn::sum_of_parts(slice_in_dim(total, first, first + nn::parts_of_sum, 0));
  };
  const nn::TwoDoubles weights = sum_of(of_weights), p = sum_of(of_p), y = sum_of(of_y);
  const Array weight = weights.high;
  // n sum(a b) - sum(a) sum(b), whose products have 106 bits.
  const auto covariance = [&](RegressionSum products, const nn::TwoDoubles& a, const nn::TwoDoubles& b) {
    constexpr double rounding = 0x1p-96;
    const nn::TwoDoubles whole = weights * sum_of(products);
    const Array difference = (whole - a * b).high;
    const Array kept = where(abs(difference) <= rounding * abs(whole.high), 0, difference);
    return nn::ratio(nn::ratio(kept, weight), weight);
  };
  return {nn::ratio(p.high, weight), nn::ratio(y.high, weight), covariance(of_p2, p, p),
          covariance(of_y2, y, y),   covariance(of_py, p, y),   nn::ratio(total[error_row], weight)};
}

/// 1 - errors / spread, averaged; 0 where there is no spread.
Array explained(const RegressionMoments& m, const Array& errors) {
  const Array& spread = m.variance_y;
  const Array none = ~(spread > 0) & ~(spread != spread);
  return mean(where(none, 0, 1 - errors / where(none, 1, spread)));
}

}  // namespace

Array root_mean_squared_error(const Weighted& squared_errors) { return sqrt(value(squared_errors)); }

Weighted cosine_similarity(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight) {
  return weighted(nn::cosine_of({"cosine_similarity", weight}, predictions, targets), weight);
}

Weighted regression_sums(const ArrayOperand& predictions, const ArrayOperand& targets, const Array& weight) {
  const nn::LossCall of{"regression_sums", weight};
  const auto [narrow_p, narrow_y] = nn::number_operands(of, predictions, targets);
  if (narrow_p.ndim() == 0) {
    throw ShapeError("[regression_sums] predictions are " + to_string(predictions.type()) +
                     "; give rows, [B] or [B, ..., D]");
  }
  const std::int64_t outputs = narrow_p.ndim() == 1 ? 1 : narrow_p.dim(-1);
  const auto rows = [&](const Array& x) { return reshape(convert(x, float64), {-1, outputs}); };
  const Array w = rows(nn::element_weights(of, narrow_p));
  // What weighs nothing may be NaN.
  const Array p = where(w == 0, 0, rows(narrow_p)), y = where(w == 0, 0, rows(narrow_y));
  const nn::TwoDoubles weights{w, zeros_like(w)};
  const auto total = [&](const nn::TwoDoubles& x) { return nn::exact_sum(weights * x); };
  const Array sums = concatenate(
      {nn::exact_sum(weights), nn::exact_sum(nn::exact_product(w, p)), nn::exact_sum(nn::exact_product(w, y)),
       total(nn::exact_product(p, p)), total(nn::exact_product(y, y)), total(nn::exact_product(p, y)),
       expand_dims(sum(w * square(p - y), Axes{0}), 0)},
      0);
  return {sums, sum(w) / static_cast<double>(outputs)};
}

Array r2_score(const Weighted& sums) {
  const RegressionMoments m = moments_of("r2_score", sums);
  return explained(m, m.error2);
}

Array explained_variance(const Weighted& sums) {
  const RegressionMoments m = moments_of("explained_variance", sums);
  return explained(m, m.variance_p - 2 * m.covariance + m.variance_y);
}

Array pearson_correlation(const Weighted& sums) {
  const RegressionMoments m = moments_of("pearson_correlation", sums);
  return mean(nn::ratio(m.covariance, sqrt(maximum(m.variance_p, 0)) * sqrt(maximum(m.variance_y, 0))));
}

Array concordance_correlation(const Weighted& sums) {
  const RegressionMoments m = moments_of("concordance_correlation", sums);
  const Array spread = maximum(m.variance_p, 0) + maximum(m.variance_y, 0) + square(m.p - m.y);
  return mean(nn::ratio(2 * m.covariance, spread));
}

}  // namespace lockstep
