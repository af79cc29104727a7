#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/custom_derivatives.h>
#include <lockstep/error.h>
#include <lockstep/layers_normalization.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>
#include <lockstep/sequential_map.h>

#include "engine/core/scale_of_squares.h"

namespace lockstep {
namespace {

struct LocalMoments {
  Array first;  ///< Close to the mean, constant to derivatives.
  Array lost;   ///< The mean less `first`.
  Array variance;
  Array count;  ///< Elements per channel that went in; rank 0.
};

void check_normalized(std::string_view layer, const Scope& scope, const Array& x, double epsilon) {
  if (x.ndim() < 2 || !is_float(x.dtype())) {
    throw ShapeError("[" + std::string(layer) + " '" + scope.path() + "'] the input is " + to_string(x.type()) +
                     "; give floats [N, ..., C]");
  }
  if (!(epsilon >= 0)) {
    throw ValueError(fmt::format("[{} '{}'] epsilon is {}; it must not be negative", layer, scope.path(), epsilon));
  }
}

Axes all_but_last(const Array& x) {
  Axes axes;
  for (int i = 0; i + 1 < x.ndim(); ++i) axes.push_back(i);
  return axes;
}

/// sum / count, 0 where nothing was counted.
Array divided(const Array& sum, const Array& count) { return where(count == 0, 0, sum / where(count == 0, 1, count)); }

/// true where a row counts, broadcastable to x; empty when every row does.
Array row_mask(const Array& rows, const Array& x) {
  if (!rows.has_value()) return {};
  if (rows.ndim() == 0) return reshape(rows != 0, std::vector<std::int64_t>(static_cast<std::size_t>(x.ndim()), 1));
  if (rows.ndim() != 1 || rows.dim(0) != x.dim(0)) {
    throw ShapeError("[batch_norm] row weights are " + to_string(rows.type()) + ", the input has " +
                     std::to_string(x.dim(0)) + " rows; give one weight per row");
  }
  std::vector<std::int64_t> shape(static_cast<std::size_t>(x.ndim()), 1);
  shape[0] = x.dim(0);
  return reshape(rows != 0, shape);
}

/// Of this shard, whether they count or not.
double elements_of_a_channel(const Array& x) {
  double count = 1;
  for (int i = 0; i + 1 < x.ndim(); ++i) count *= static_cast<double>(x.dim(i));
  return count;
}

/// The largest power of two that keeps a sum of so many elements times it within their range; it rounds nothing.
double part_of(double count) { return std::exp2(-std::ceil(std::log2(std::max(count, 1.0)))); }

/// The variance from the mean square around a first mean, whose distance from the mean is `lost`: exactly 0 where all
/// elements are equal. Of squares that overflow, infinite; so what is divided by its root is 0 and not NaN.
Array variance_around(const Array& mean_square, const Array& lost) {
  const Array variance = mean_square - square(lost);
  const Array rounded = stop_gradient(maximum(-variance, 0));
  return where(is_finite(mean_square), variance + rounded, mean_square);
}

/// About the mean of x; where its sum overflows, the first element along the axes. Constant to derivatives.
Array near_mean(const Array& x, const Axes& axes) {
  const Array about = mean(x, axes, true);
  Array start = x;
  for (const std::int64_t axis : axes) {
    if (x.dim(static_cast<int>(axis)) == 0) return about;
    start = slice_in_dim(start, 0, 1, axis);
  }
  return stop_gradient(where(is_finite(about), about, start));
}

/// (x - mean) * factor, with a derivative that multiplies by the factor after all elements have been added up for the
/// mean: backward, the sum is that of an offset added behind it.
Array scaled_around(const Array& x, const Array& mean, const Array& factor) {
  const auto scaled = [](const Array& v, const Array& m, const Array& f) { return (v - m) * f; };
  const auto rule = [](const std::tuple<Array, Array, Array>& at, const std::tuple<Array, Array, Array>& along) {
    const auto& [v, m, f] = at;
    const auto& [v_dot, m_dot, f_dot] = along;
    const Array centered = v - m;
    return std::pair(centered * f, v_dot * f + centered * f_dot + m_dot * -f);
  };
  return custom_jvp(scaled, rule)(x, mean, factor);
}

/// Moments of this shard's rows in two passes. The second one's distances from the first mean, which is constant to
/// derivatives, give the variance and what the first mean has lost by rounding; backward, what x has through either
/// waits for no sum of its own.
LocalMoments local_moments(const Array& x, const Array& mask) {
  const Axes axes = all_but_last(x);
  const double all = elements_of_a_channel(x);
  const double inner = x.dim(0) == 0 ? 0 : all / static_cast<double>(x.dim(0));
  const Array count = mask.has_value() ? sum(convert(mask, x.dtype())) * inner : full({}, all, x.dtype());
  const auto masked = [&] { return divided(sum(where(mask, x * part_of(all), 0), axes), count * part_of(all)); };
  const Array first = mask.has_value() ? stop_gradient(masked()) : reshape(near_mean(x, axes), {x.dim(-1)});
  const Array away = mask.has_value() ? where(mask, x - first, 0) : x - first;
  const Array lost = divided(sum(away, axes), count);
  return {first, lost, variance_around(divided(sum(square(away), axes), count), lost), count};
}

/// One set of moments out of the replicas', likewise: n and n * mean first, then sums of distances from the common
/// mean.
LocalMoments joined_moments(const LocalMoments& local, const AxisSet& axes, double elements) {
  const auto total = [&](const Array& v) { return psum(pvary(v, axes.without(v.type().varying)), axes); };
  for (const std::string& axis : axes.names()) elements *= static_cast<double>(axis_size(axis));
  const double part = part_of(elements);
  const Array count = total(local.count);
  const Array first = stop_gradient(divided(total(local.count * part * (local.first + local.lost)), count * part));
  const Array away = where(local.count == 0, 0, (local.first - first) + local.lost);
  const Array lost = divided(total(local.count * away), count);
  const Array squares = total(local.count * local.variance + local.count * square(away));
  return {first, lost, variance_around(divided(squares, count), lost), count};
}

/// The axes along which moments are joined. Throws MeshError where that would take all microbatches.
AxisSet axes_of_statistics(const Scope& scope, const Array& x, const BatchNormOptions& options) {
  const AxisSet& varying = x.type().varying;
  if (varying.contains(microbatch_axis) && !options.per_microbatch) {
    throw MeshError("[batch_norm '" + scope.path() +
                    "'] the step cuts the batch into microbatches, which run one after the other, so statistics of the "
                    "whole batch are not there when the first is normalised; give BatchNormOptions{.per_microbatch = "
                    "true} for statistics of each microbatch, or microbatches = 1");
  }
  return options.synchronized ? varying.without({microbatch_axis}) : AxisSet();
}

Array gamma_variable(const Scope& scope, const Array& x, Aggregation aggregation) {
  return scope.trainable("gamma", {.shape = {x.dim(-1)},
                                   .dtype = x.dtype(),
                                   .initializer = initializers::ones(),
                                   .aggregation = aggregation,
                                   .cast = false});
}
Array beta_variable(const Scope& scope, const Array& x, Aggregation aggregation) {
  return scope.trainable("beta", {.shape = {x.dim(-1)}, .dtype = x.dtype(), .aggregation = aggregation, .cast = false});
}

/// Of x in at least float32, which the caller rounds once, behind scale and offset.
Array normalized_over(const Array& wide, const Axes& axes, double epsilon) {
  const double scale = scale_of_squares(wide.dtype(), epsilon);
  const Array away = (wide - near_mean(wide, axes)) * scale;  // as in local_moments
  const Array lost = mean(away, axes, true);
  const Array variance = variance_around(mean(square(away), axes, true), lost);
  return (away - lost) * rsqrt(variance + scale * scale * epsilon);
}

/// Normalised values times gamma plus beta, in the dtype of x.
template <class Options>
Array scaled_and_offset(const Scope& scope, const Array& x, Array normalized, const Options& options) {
  const DType wide = normalized.dtype();
  if (options.scale) normalized = normalized * convert(gamma_variable(scope, x, options.aggregation), wide);
  if (options.center) normalized = normalized + convert(beta_variable(scope, x, options.aggregation), wide);
  return convert(normalized, x.dtype());
}

Array normalized_in_groups(const Scope& scope, const Array& x, const GroupNormOptions& options, std::int64_t groups) {
  const std::int64_t channels = x.dim(-1);
  if (groups < 1 || channels % groups != 0) {
    throw ValueError(fmt::format("[group_norm '{}'] {} channels, {} groups; groups is at least 1 and divides them",
                                 scope.path(), channels, groups));
  }
  std::vector<std::int64_t> whole(x.shape().dims().begin(), x.shape().dims().end()), parted = whole;
  parted.back() = groups;
  parted.push_back(channels / groups);
  Axes axes = {x.ndim()};
  for (int i = 1; i + 1 < x.ndim(); ++i) axes.push_back(i);
  const Array wide = convert(x, promote(x.dtype(), float32));
  const Array y = reshape(normalized_over(reshape(wide, parted), axes, options.epsilon), whole);
  return scaled_and_offset(scope, x, y, options);
}

}  // namespace

Array batch_norm(const Scope& scope, const ArrayOperand& given, const BatchNormOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  check_normalized("batch_norm", scope, x, options.epsilon);
  if (!(options.momentum >= 0 && options.momentum <= 1)) {
    throw ValueError(
        fmt::format("[batch_norm '{}'] momentum is {}; expected a share from 0 to 1", scope.path(), options.momentum));
  }
  const DType statistics = promote(x.dtype(), float32);
  const bool of_all_rows = options.synchronized && !options.per_microbatch;
  const Aggregation aggregation = of_all_rows ? Aggregation::none : Aggregation::mean;
  const auto moving = [&](std::string_view name, Initializer initializer) {
    return scope.non_trainable(
        name,
        {.shape = {x.dim(-1)}, .dtype = statistics, .initializer = std::move(initializer), .aggregation = aggregation});
  };
  const Array moving_mean = moving("moving_mean", initializers::zeros());
  const Array moving_variance = moving("moving_variance", initializers::ones());
  const Array wide = convert(x, statistics);

  Array away = wide;
  Array mean = moving_mean;
  Array variance = moving_variance;
  Array counted;
  if (scope.training() && options.trainable) {
    const AxisSet joined = axes_of_statistics(scope, x, options);
    LocalMoments moments = local_moments(wide, row_mask(scope.rows(x), x));
    if (!joined.empty()) moments = joined_moments(moments, joined, elements_of_a_channel(x));
    away = wide - moments.first;
    mean = moments.lost;
    variance = moments.variance;
    counted = moments.count != 0;
    const auto next = [&](const Array& old, const Array& now) {
      return where(counted, options.momentum * old + (1.0 - options.momentum) * now, old);
    };
    scope.assign("moving_mean", next(moving_mean, moments.first + moments.lost));
    scope.assign("moving_variance", next(moving_variance, variance));
  }
  Array factor = rsqrt(variance + options.epsilon);
  if (counted.has_value()) factor = where(counted, factor, 0);
  // One factor a channel: backward, its gradient is one sum over all elements for both of what it is made of.
  if (options.scale) factor = factor * convert(gamma_variable(scope, x, options.aggregation), statistics);
  Array y = scaled_around(away, mean, factor);
  if (options.center) y = y + convert(beta_variable(scope, x, options.aggregation), statistics);
  return convert(y, x.dtype());
}

Array layer_norm(const Scope& scope, const ArrayOperand& given, const LayerNormOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  check_normalized("layer_norm", scope, x, options.epsilon);
  const Array wide = convert(x, promote(x.dtype(), float32));
  return scaled_and_offset(scope, x, normalized_over(wide, Axes{x.ndim() - 1}, options.epsilon), options);
}

Array group_norm(const Scope& scope, const ArrayOperand& given, const GroupNormOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  check_normalized("group_norm", scope, x, options.epsilon);
  return normalized_in_groups(scope, x, options, options.groups);
}

Array instance_norm(const Scope& scope, const ArrayOperand& given, const GroupNormOptions& options) {
  const NamedScope named = scope.named();
  const Array x = scope.in_compute_dtype(given);
  check_normalized("instance_norm", scope, x, options.epsilon);
  return normalized_in_groups(scope, x, options, x.dim(-1));
}

}  // namespace lockstep
