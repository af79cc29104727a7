#include <tuple>
#include <utility>

#include <lockstep/custom_derivatives.h>
#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/sequential_map.h>

namespace lockstep {
namespace {

struct Moments {
  Array mean;
  Array variance;
  Array count;  ///< Elements per channel that went in; rank 0.
};

void check_normalized(std::string_view layer, const Scope& scope, const Array& x, double epsilon) {
  if (x.ndim() < 2 || !is_float(x.dtype())) {
    throw ShapeError("[" + std::string(layer) + " '" + scope.path() + "'] the input is " + to_string(x.type()) +
                     "; give floats [N, ..., C]");
  }
  if (!(epsilon >= 0)) {
    throw ValueError("[" + std::string(layer) + " '" + scope.path() + "'] epsilon is " + std::to_string(epsilon) +
                     "; it must not be negative");
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

/// Squares of x - mean(x), added up by `add`, with a derivative that leaves out the mean's part: that is a sum of
/// distances from a mean, 0. So backward, what x has through its variance waits for no sum of its own.
template <class Mean, class Add>
Array squares_around(const Array& x, Mean mean, Add add) {
  const auto squares = [=](const Array& v) { return add(square(v - mean(v))); };
  const auto rule = [=](const std::tuple<Array>& at, const std::tuple<Array>& along) {
    const Array centered = std::get<0>(at) - mean(std::get<0>(at));
    return std::pair(add(square(centered)), 2 * add(centered * std::get<0>(along)));
  };
  return custom_jvp(squares, rule)(x);
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

/// Moments of this shard's rows, two passes.
Moments local_moments(const Array& x, const Array& mask) {
  const Axes axes = all_but_last(x);
  double inner = 1;
  for (int i = 1; i + 1 < x.ndim(); ++i) inner *= static_cast<double>(x.dim(i));
  const Array count = mask.has_value() ? sum(convert(mask, x.dtype())) * inner
                                       : full({}, inner * static_cast<double>(x.dim(0)), x.dtype());
  const auto add = [=](const Array& v) { return sum(mask.has_value() ? where(mask, v, 0) : v, axes); };
  const auto mean = [=](const Array& v) { return divided(add(v), count); };
  return {mean(x), divided(squares_around(x, mean, add), count), count};
}

/// One set of moments out of the replicas': n and n * mean first, then M2 around the common mean.
Moments joined_moments(const Moments& local, const AxisSet& axes) {
  const auto total = [&](const Array& v) { return psum(pvary(v, axes.without(v.type().varying)), axes); };
  const Array count = total(local.count);
  const Array mean = divided(total(local.count * local.mean), count);
  const Array m2 = total(local.count * local.variance + local.count * square(local.mean - mean));
  return {mean, divided(m2, count), count};
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

Array gamma(const Scope& scope, const Array& x, Aggregation aggregation) {
  return scope.trainable(
      "gamma",
      {.shape = {x.dim(-1)}, .dtype = x.dtype(), .initializer = initializers::ones(), .aggregation = aggregation});
}
Array beta(const Scope& scope, const Array& x, Aggregation aggregation) {
  return scope.trainable("beta", {.shape = {x.dim(-1)}, .dtype = x.dtype(), .aggregation = aggregation});
}

}  // namespace

Array batch_norm(const Scope& scope, const Array& x, const BatchNormOptions& options) {
  const NamedScope named = scope.named();
  check_normalized("batch_norm", scope, x, options.epsilon);
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

  Array mean = moving_mean;
  Array variance = moving_variance;
  Array counted;
  if (scope.training() && options.trainable) {
    const AxisSet joined = axes_of_statistics(scope, x, options);
    Moments moments = local_moments(wide, row_mask(scope.rows(), x));
    if (!joined.empty()) moments = joined_moments(moments, joined);
    mean = moments.mean;
    variance = moments.variance;
    counted = moments.count != 0;
    const auto next = [&](const Array& old, const Array& now) {
      return where(counted, options.momentum * old + (1.0 - options.momentum) * now, old);
    };
    scope.assign("moving_mean", next(moving_mean, mean));
    scope.assign("moving_variance", next(moving_variance, variance));
  }
  Array factor = rsqrt(variance + options.epsilon);
  if (counted.has_value()) factor = where(counted, factor, 0);
  // One factor a channel: backward, its gradient is one sum over all elements for both of what it is made of.
  if (options.scale) factor = factor * convert(gamma(scope, x, options.aggregation), statistics);
  Array y = scaled_around(wide, mean, factor);
  if (options.center) y = y + convert(beta(scope, x, options.aggregation), statistics);
  return convert(y, x.dtype());
}

Array layer_norm(const Scope& scope, const Array& x, const LayerNormOptions& options) {
  const NamedScope named = scope.named();
  check_normalized("layer_norm", scope, x, options.epsilon);
  const Array wide = convert(x, promote(x.dtype(), float32));
  const Array centered = wide - mean(wide, Axes{-1}, true);
  const Array variance = mean(square(centered), Axes{-1}, true);
  Array y = convert(centered * rsqrt(variance + options.epsilon), x.dtype());
  if (options.scale) y = y * convert(gamma(scope, x, options.aggregation), x.dtype());
  if (options.center) y = y + convert(beta(scope, x, options.aggregation), x.dtype());
  return y;
}

}  // namespace lockstep
