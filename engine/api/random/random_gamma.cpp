#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "engine/api/random/random_draws.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

// The gamma distribution and those made of it.
namespace lockstep::random {

namespace {

Array draw_gamma(std::string_view op, const Array& key, const Operand& a, const Shape& shape, DType dtype,
                 bool log_space, const Placement& placement) {
  check_float(op, dtype);
  check_one_key(op, key);
  return api::bind_one(ops::primitives::random_gamma(),
                       {draw_keys(op, key, shape, placement), full_parameter(op, a, dtype, shape)},
                       {{"log_space", log_space}});
}

/// The logarithm of a draw, which is above -inf: a narrow dtype loses it for small a.
Array finite_log(std::string_view op, const Array& key, const Operand& a, const Shape& shape, DType dtype,
                 const Placement& placement) {
  const Array log = draw_gamma(op, key, a, shape, dtype, true, placement);
  const double infinity = std::numeric_limits<double>::infinity();
  const Array lowest = nextafter(full({}, -infinity, dtype), full({}, infinity, dtype));
  return where(greater(parameter(op, a, dtype, shape), 0), maximum(log, lowest), log);
}

Operand half(const Operand& x) {
  return x.is_scalar() ? Operand(x.real() / 2) : Operand(div(x.array(), full_like(x.array(), 2)));
}

Array draw_chisquare(std::string_view op, const Array& key, const Operand& df, const Shape& shape, DType dtype,
                     const Placement& placement) {
  return mul(exp(draw_gamma(op, key, half(df), shape, dtype, true, placement)), 2);
}

void check_positive(std::string_view op, std::string_view name, double value) {
  if (value > 0) return;
  throw ValueError(fmt::format("random::{}: {} must be above 0, got {}", op, name, value));
}

}  // namespace

Array gamma(const ArrayOperand& key, const Operand& a, const Shape& shape, DType dtype, const Placement& placement) {
  return draw_gamma("gamma", key, a, shape, dtype, false, placement);
}

Array loggamma(const ArrayOperand& key, const Operand& a, const Shape& shape, DType dtype, const Placement& placement) {
  return draw_gamma("loggamma", key, a, shape, dtype, true, placement);
}

Array beta(const ArrayOperand& key, const Operand& a, const Operand& b, const Shape& shape, DType dtype,
           const Placement& placement) {
  check_one_key("beta", key);
  const std::vector<Array> keys = subkeys(key, 2);
  const Array log_a = finite_log("beta", keys[0], a, shape, dtype, placement);
  const Array log_b = finite_log("beta", keys[1], b, shape, dtype, placement);
  const Array largest = stop_gradient(maximum(log_a, log_b));
  const Array scaled_a = exp(sub(log_a, largest));
  return div(scaled_a, add(scaled_a, exp(sub(log_b, largest))));
}

Array dirichlet(const ArrayOperand& key, const ArrayOperand& alpha, const Shape& shape, DType dtype,
                const Placement& placement) {
  if (alpha.ndim() == 0) {
    throw ShapeError(
        fmt::format("random::dirichlet: alpha needs a last dimension of the weights, got {}", to_string(alpha.type())));
  }
  Shape weights = shape;
  weights.append(alpha.dim(-1));
  return softmax(finite_log("dirichlet", key, alpha, weights, dtype, in_front("dirichlet", shape, placement)), -1);
}

Array chisquare(const ArrayOperand& key, const Operand& df, const Shape& shape, DType dtype,
                const Placement& placement) {
  return draw_chisquare("chisquare", key, df, shape, dtype, placement);
}

Array f(const ArrayOperand& key, const Operand& d1, const Operand& d2, const Shape& shape, DType dtype,
        const Placement& placement) {
  check_one_key("f", key);
  const std::vector<Array> keys = subkeys(key, 2);
  const Array log_above = finite_log("f", keys[1], half(d1), shape, dtype, placement);
  const Array log_below = finite_log("f", keys[0], half(d2), shape, dtype, placement);
  const Array n1 = parameter("f", d1, dtype, shape), n2 = parameter("f", d2, dtype, shape);
  const Array above = div(mul(exp(log_above), 2), n1), below = div(mul(exp(log_below), 2), n2);
  // Of few degrees of freedom either may vanish, or keep few digits, though their ratio has a value.
  const Array by_logs = mul(exp(sub(log_above, log_below)), div(n2, n1));
  const double least = format_of(dtype).tiny;
  const Array both = bitwise_and(greater_equal(above, least), greater_equal(below, least));
  return where(both, div(above, where(both, below, 1)), by_logs);
}

Array t(const ArrayOperand& key, const Operand& df, const Shape& shape, DType dtype, const Placement& placement) {
  check_float("t", dtype);
  check_one_key("t", key);
  const std::vector<Array> keys = subkeys(key, 2);
  const Array n = normal(keys[0], shape, dtype, placement);
  const Array each = draw_keys("t", keys[1], shape, placement);
  const Array a = full_parameter("t", half(df), dtype, shape);
  const auto drawn = [&](const Array& of, bool log_space) {
    return api::bind_one(ops::primitives::random_gamma(), {of, a}, {{"log_space", log_space}});
  };
  const Array g = drawn(each, false);
  // The same draw's logarithm, where a narrow or small draw vanishes, keeps few digits or divides beyond the range.
  const Array by_log = exp(mul(sub(log(a), drawn(clone(each), true)), 0.5));
  const Array is_left = greater_equal(g, format_of(dtype).tiny);
  const Array quotient = div(a, where(is_left, g, 1));
  return mul(n, where(bitwise_and(is_left, is_finite(quotient)), sqrt(quotient), by_log));
}

Array generalized_normal(const ArrayOperand& key, double p, const Shape& shape, DType dtype,
                         const Placement& placement) {
  check_one_key("generalized_normal", key);
  check_positive("generalized_normal", "p", p);
  const std::vector<Array> keys = subkeys(key, 2);
  const Array g = draw_gamma("generalized_normal", keys[0], 1 / p, shape, dtype, false, placement);
  return mul(rademacher(keys[1], shape, dtype, placement), pow(g, 1 / p));
}

Array ball(const ArrayOperand& key, std::int64_t d, double p, const Shape& shape, DType dtype,
           const Placement& placement) {
  check_one_key("ball", key);
  check_positive("ball", "p", p);
  check_positive("ball", "d", static_cast<double>(d));
  const std::vector<Array> keys = subkeys(key, 2);
  Shape vectors = shape;
  vectors.append(d);
  const Array g = generalized_normal(keys[0], p, vectors, dtype, in_front("ball", shape, placement));
  const Array e = exponential(keys[1], shape, dtype, placement);
  const Array norm = pow(add(sum(pow(abs(g), p), {{-1}}), e), 1 / p);
  return div(g, expand_dims(norm, -1));
}

}  // namespace lockstep::random
