#include <cmath>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/layers_regularization.h>
#include <lockstep/ops.h>

namespace lockstep {
namespace {

void check_rate(std::string_view layer, const Scope& scope, double rate) {
  if (rate >= 0 && rate < 1) return;
  throw ValueError(fmt::format("[{} '{}'] the rate is {}; give a probability in [0, 1)", layer, scope.path(), rate));
}

/// Normal numbers of x's shape, in at least float32.
Array normal_like(const Array& key, const Scope& scope, const Array& x) {
  return random::normal(key, x.shape(), promote(x.dtype(), float32), scope.over_batch(x));
}

/// Noisy values in the input's dtype; of integers, which would lose the noise, as floats.
Array in_dtype_of(const Array& x, const Array& noisy) {
  return is_inexact(x.dtype()) ? convert(noisy, x.dtype()) : noisy;
}

}  // namespace

Array dropout(const Scope& scope, const ArrayOperand& x, double rate) {
  const NamedScope named = scope.named();
  check_rate("dropout", scope, rate);
  const Array key = scope.next_key(x);
  if (!scope.training() || rate == 0) return x;
  const Array kept = random::bernoulli(key, 1.0 - rate, x.shape(), scope.over_batch(x));
  return where(kept, x * (1.0 / (1.0 - rate)), 0);
}

Array spatial_dropout(const Scope& scope, const ArrayOperand& x, double rate) {
  const NamedScope named = scope.named();
  check_rate("spatial_dropout", scope, rate);
  if (x.ndim() < 3) {
    throw ShapeError(fmt::format("[spatial_dropout '{}'] the input is {}; give [N, spatial..., C]", scope.path(),
                                 to_string(x.type())));
  }
  const Array key = scope.next_key(x);
  if (!scope.training() || rate == 0) return x;
  std::vector<std::int64_t> extents(static_cast<std::size_t>(x.ndim()), 1);
  extents.front() = x.dim(0);
  extents.back() = x.dim(-1);
  const Array kept = random::bernoulli(key, 1.0 - rate, Shape(extents), scope.over_batch(x));
  return where(kept, x * (1.0 / (1.0 - rate)), 0);
}

Array alpha_dropout(const Scope& scope, const ArrayOperand& x, double rate) {
  const NamedScope named = scope.named();
  check_rate("alpha_dropout", scope, rate);
  const Array key = scope.next_key(x);
  if (!scope.training() || rate == 0) return x;
  // selu's limit at -inf: minus scale times alpha of Klambauer et al.
  constexpr double limit = -1.7580993408473766;
  const double scale = 1 / std::sqrt((1 - rate) * (1 + rate * limit * limit));
  const Array kept = random::bernoulli(key, 1.0 - rate, x.shape(), scope.over_batch(x));
  return where(kept, x, limit) * scale - scale * rate * limit;
}

Array gaussian_dropout(const Scope& scope, const ArrayOperand& x, double rate) {
  const NamedScope named = scope.named();
  check_rate("gaussian_dropout", scope, rate);
  const Array key = scope.next_key(x);
  if (!scope.training() || rate == 0) return x;
  const Array factor = 1 + std::sqrt(rate / (1 - rate)) * normal_like(key, scope, x);
  return in_dtype_of(x, x * factor);
}

Array gaussian_noise(const Scope& scope, const ArrayOperand& x, double stddev) {
  const NamedScope named = scope.named();
  if (!(stddev >= 0)) {
    throw ValueError(fmt::format("[gaussian_noise '{}'] stddev is {}; it must not be negative", scope.path(), stddev));
  }
  const Array key = scope.next_key(x);
  if (!scope.training() || stddev == 0) return x;
  return in_dtype_of(x, x + stddev * normal_like(key, scope, x));
}

}  // namespace lockstep
