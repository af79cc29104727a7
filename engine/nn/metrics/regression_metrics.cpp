#include <lockstep/error.h>
#include <lockstep/metrics.h>
#include <lockstep/ops.h>

#include "engine/nn/losses/cosine.h"
#include "engine/nn/metrics/metric_sums.h"

namespace lockstep {
namespace {

/// Weighted means over all rows, for each output.
struct RegressionMoments {
  Array p, y, p2, y2, py, error2;
};

RegressionMoments moments_of(std::string_view metric, const Weighted& sums) {
  const Array total = nn::total_sums(metric, sums, 6, "regression_sums");
  const Array weight = nn::reduced(convert(sums.weight, float64));
  const auto row = [&](std::int64_t i) { return nn::ratio(total[i], weight); };
  return {row(0), row(1), row(2), row(3), row(4), row(5)};
}

/// 1 - errors / spread, averaged; 0 where there is no spread.
Array explained(const RegressionMoments& m, const Array& errors) {
  const Array spread = m.y2 - square(m.y), none = ~(spread > 0) & ~(spread != spread);
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
  // Squares less squared means: what float32 leaves of these is nothing.
  const auto rows = [&](const Array& x) { return reshape(convert(x, float64), {-1, outputs}); };
  const Array w = rows(nn::element_weights(of, narrow_p));
  const Array p = rows(narrow_p), y = rows(narrow_y);
  const auto total = [&](const Array& x) { return sum(where(w == 0, 0, x * w), Axes{0}); };
  const Array sums = stack({total(p), total(y), total(p * p), total(y * y), total(p * y), total(square(p - y))}, 0);
  return {sums, sum(w) / static_cast<double>(outputs)};
}

Array r2_score(const Weighted& sums) {
  const RegressionMoments m = moments_of("r2_score", sums);
  return explained(m, m.error2);
}

Array explained_variance(const Weighted& sums) {
  const RegressionMoments m = moments_of("explained_variance", sums);
  return explained(m, m.error2 - square(m.p - m.y));
}

Array pearson_correlation(const Weighted& sums) {
  const RegressionMoments m = moments_of("pearson_correlation", sums);
  const Array spread = sqrt(maximum(m.p2 - square(m.p), 0)) * sqrt(maximum(m.y2 - square(m.y), 0));
  return mean(nn::ratio(m.py - m.p * m.y, spread));
}

Array concordance_correlation(const Weighted& sums) {
  const RegressionMoments m = moments_of("concordance_correlation", sums);
  const Array spread = maximum(m.p2 - square(m.p), 0) + maximum(m.y2 - square(m.y), 0) + square(m.p - m.y);
  return mean(nn::ratio(2 * (m.py - m.p * m.y), spread));
}

}  // namespace lockstep
