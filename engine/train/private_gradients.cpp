// DP-SGD: clipped gradients of each example, Gaussian noise, and the accountant of the sampled Gaussian mechanism.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/gradient_transformations.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/private_gradients.h>
#include <lockstep/transforms.h>

namespace lockstep {
namespace {

void check_positive(const char* who, const char* what, double value) {
  if (value > 0 && std::isfinite(value)) return;
  throw ValueError(fmt::format("[{}] {} is {}; it must be above 0 and finite", who, what, value));
}

/// Rows [B, ...] as batches of one row, [B, 1, ...].
Tree batches_of_one(const Tree& rows) {
  return map([](const Array& x) { return x.has_value() ? expand_dims(x, 1) : x; }, rows);
}

AxisSet axes_of_rows(const Tree& rows) {
  AxisSet axes;
  for (const Array& leaf : rows.leaves()) {
    if (leaf.has_value()) axes = axes.joined(leaf.type().varying);
  }
  return axes;
}

/// log(exp(a) + exp(b)).
double log_sum(double a, double b) {
  const double high = std::max(a, b);
  return high == -std::numeric_limits<double>::infinity() ? high : high + std::log1p(std::exp(std::min(a, b) - high));
}

/// The Renyi divergence of that order of one step: log E[(1 - q + q e^((2z - 1) / 2 s^2))^order] / (order - 1), z normal
/// with deviation s, expanded by the binomial theorem.
double renyi_divergence(double q, double s, int order) {
  if (q == 1) return order / (2 * s * s);
  double log_moment = -std::numeric_limits<double>::infinity();
  for (int k = 0; k <= order; ++k) {
    const double log_choose = std::lgamma(order + 1) - std::lgamma(k + 1) - std::lgamma(order - k + 1);
    const double gain = static_cast<double>(k) * (k - 1) / (2 * s * s);
    log_moment = log_sum(log_moment, log_choose + k * std::log(q) + (order - k) * std::log1p(-q) + gain);
  }
  return log_moment / (order - 1);
}

}  // namespace

Weighted detail::clipped_per_example(const ExampleLoss& loss, const Tree& trainable, const Tree& rows,
                                     const Array& weight, double clip) {
  check_positive("clipped_per_example", "clip", clip);
  const Tree point = map([](const Array& w) { return stop_gradient(w); }, trainable);
  // Each replica's rows have gradients of their own, which no transpose adds up.
  const Tree own = pvary(point, axes_of_rows(rows));
  const auto of_row = [&](const std::vector<Tree>& arguments) {
    const auto value = [&](const std::vector<Tree>& at) { return Tree(loss(at[0], arguments[0])); };
    ValueAndGradients found = value_and_grad(value, {own}, {0});
    const Array norm = optim::global_norm(found.gradients[0]);
    const Array factor = minimum(1, clip / where(norm == 0, 1, norm));
    return Tree::list(
        {found.value, map([&](const Array& g) { return g * convert(factor, g.dtype()); }, found.gradients[0])});
  };
  const Tree all = vmap(of_row, {batches_of_one(rows)}, {0}, 0, "");
  const Array values = all.items()[0].array();
  const Array counts = weight.has_value() ? stop_gradient(weight) != 0 : full(values.shape(), true, bool_);
  Array total = sum(where(counts, stop_gradient(values), 0));
  const auto leaves = trainable.leaves(), points = point.leaves(), gradients = all.items()[1].leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(gradients[i].ndim()), 1);
    shape[0] = gradients[i].dim(0);
    const Array added = sum(where(reshape(counts, shape), stop_gradient(gradients[i]), 0), Axes{0});
    // 0, with the gradients' sum as its derivative.
    total = total + convert(sum((leaves[i] - points[i]) * added), total.dtype());
  }
  return {total, sum(convert(counts, promote(total.dtype(), float32)))};
}

double privacy_epsilon(const PrivacyOptions& o) {
  check_positive("privacy_epsilon", "noise_multiplier", o.noise_multiplier);
  if (!(o.sampling_rate > 0 && o.sampling_rate <= 1)) {
    throw ValueError(
        fmt::format("[privacy_epsilon] sampling_rate is {}; it must be above 0 and at most 1", o.sampling_rate));
  }
  if (o.steps < 0) throw ValueError(fmt::format("[privacy_epsilon] steps is {}; it must be at least 0", o.steps));
  if (!(o.delta > 0 && o.delta < 1)) {
    throw ValueError(fmt::format("[privacy_epsilon] delta is {}; it must lie between 0 and 1", o.delta));
  }
  if (o.steps == 0) return 0;
  double least = std::numeric_limits<double>::infinity();
  for (int order = 2; order <= 512; ++order) {
    const double divergence =
        static_cast<double>(o.steps) * renyi_divergence(o.sampling_rate, o.noise_multiplier, order);
    const double epsilon = divergence + std::log1p(-1.0 / order) - (std::log(o.delta) + std::log(order)) / (order - 1);
    least = std::min(least, epsilon);
  }
  return std::max(least, 0.0);
}

optim::GradientTransformation optim::private_noise(double noise_multiplier, double clip, std::int64_t batch,
                                                   const Array& key) {
  check_positive("private_noise", "noise_multiplier", noise_multiplier);
  check_positive("private_noise", "clip", clip);
  check_positive("private_noise", "batch", static_cast<double>(batch));
  const double deviation = noise_multiplier * clip / static_cast<double>(batch);
  return add_noise(deviation * deviation, 0, key);
}

}  // namespace lockstep
