#include <cmath>
#include <limits>
#include <numbers>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/random.h>

#include "engine/api/random/random_draws.h"

// Distributions that are functions of one or a few uniforms.
namespace lockstep::random {

namespace {

Array draw_normal(std::string_view op, const Array& key, const Shape& shape, DType dtype, const Placement& placement) {
  check_float(op, dtype);
  const double above_minus_one = -1 + format_of(dtype).epsilon() / 2;
  return mul(erf_inv(draw_above(op, key, shape, dtype, above_minus_one, placement)), std::numbers::sqrt2);
}

Array draw_exponential(std::string_view op, const Array& key, const Shape& shape, DType dtype,
                       const Placement& placement) {
  return neg(log1p(neg(draw_unit(op, key, shape, dtype, placement))));
}

}  // namespace

Array normal(const ArrayOperand& key, const Shape& shape, DType dtype, const Placement& placement) {
  return draw_normal("normal", key, shape, dtype, placement);
}

Array lognormal(const ArrayOperand& key, const Operand& sigma, const Shape& shape, DType dtype,
                const Placement& placement) {
  const Array x = draw_normal("lognormal", key, shape, dtype, placement);
  return exp(mul(x, parameter("lognormal", sigma, dtype, shape)));
}

Array exponential(const ArrayOperand& key, const Shape& shape, DType dtype, const Placement& placement) {
  return draw_exponential("exponential", key, shape, dtype, placement);
}

Array laplace(const ArrayOperand& key, const Shape& shape, DType dtype, const Placement& placement) {
  check_float("laplace", dtype);
  const Array u = draw_above("laplace", key, shape, dtype, -1 + format_of(dtype).epsilon() / 2, placement);
  return mul(sign(u), log1p(neg(abs(u))));
}

Array logistic(const ArrayOperand& key, const Shape& shape, DType dtype, const Placement& placement) {
  check_float(__func__, dtype);
  const Array u = draw_above(__func__, key, shape, dtype, format_of(dtype).tiny, placement);
  return sub(log(u), log1p(neg(u)));
}

Array gumbel(const ArrayOperand& key, const Shape& shape, DType dtype, const Placement& placement) {
  check_float("gumbel", dtype);
  return neg(log(neg(log(draw_above("gumbel", key, shape, dtype, format_of(dtype).tiny, placement)))));
}

Array cauchy(const ArrayOperand& key, const Shape& shape, DType dtype, const Placement& placement) {
  check_float("cauchy", dtype);
  const Array u = draw_above("cauchy", key, shape, dtype, format_of(dtype).epsilon(), placement);
  const Array angle = mul(sub(u, 0.5), std::numbers::pi);
  return div(sin(angle), cos(angle));
}

Array pareto(const ArrayOperand& key, const Operand& b, const Shape& shape, DType dtype, const Placement& placement) {
  return exp(div(draw_exponential("pareto", key, shape, dtype, placement), parameter("pareto", b, dtype, shape)));
}

Array rayleigh(const ArrayOperand& key, const Operand& scale, const Shape& shape, DType dtype,
               const Placement& placement) {
  const Array u = maximum(draw_unit("rayleigh", key, shape, dtype, placement), format_of(dtype).tiny);
  return mul(sqrt(mul(log(u), -2)), parameter("rayleigh", scale, dtype, shape));
}

Array weibull_min(const ArrayOperand& key, const Operand& scale, const Operand& concentration, const Shape& shape,
                  DType dtype, const Placement& placement) {
  const Array x = draw_exponential("weibull_min", key, shape, dtype, placement);
  return mul(pow(x, div(1.0, parameter("weibull_min", concentration, dtype, shape))),
             parameter("weibull_min", scale, dtype, shape));
}

Array maxwell(const ArrayOperand& key, const Shape& shape, DType dtype, const Placement& placement) {
  Shape vectors = shape;
  vectors.append(3);
  const Placement in_vectors = in_front("maxwell", shape, placement);
  return sqrt(sum(square(draw_normal("maxwell", key, vectors, dtype, in_vectors)), {{-1}}));
}

Array double_sided_maxwell(const ArrayOperand& key, const Operand& location, const Operand& scale, const Shape& shape,
                           DType dtype, const Placement& placement) {
  check_one_key("double_sided_maxwell", key);
  const std::vector<Array> keys = subkeys(key, 2);
  const Array x = mul(rademacher(keys[1], shape, dtype, placement), maxwell(keys[0], shape, dtype, placement));
  return add(mul(x, parameter("double_sided_maxwell", scale, dtype, shape)),
             parameter("double_sided_maxwell", location, dtype, shape));
}

Array triangular(const ArrayOperand& key, const Operand& left, const Operand& mode, const Operand& right,
                 const Shape& shape, DType dtype, const Placement& placement) {
  const Array u = draw_unit("triangular", key, shape, dtype, placement);
  const Array low = parameter("triangular", left, dtype, shape);
  const Array peak = parameter("triangular", mode, dtype, shape);
  const Array high = parameter("triangular", right, dtype, shape);
  const Array width = sub(high, low);
  const Array rising = add(low, sqrt(mul(mul(u, width), sub(peak, low))));
  const Array falling = sub(high, sqrt(mul(mul(sub(1, u), width), sub(high, peak))));
  return where(less(u, div(sub(peak, low), width)), rising, falling);
}

Array wald(const ArrayOperand& key, const Operand& mean, const Shape& shape, DType dtype, const Placement& placement) {
  check_one_key("wald", key);
  const std::vector<Array> keys = subkeys(key, 2);
  const Array mu = parameter("wald", mean, dtype, shape);
  const Array y = square(draw_normal("wald", keys[0], shape, dtype, placement));
  const Array z = draw_unit("wald", keys[1], shape, dtype, placement);
  const Array root = sqrt(add(mul(mul(mu, y), 4), mul(square(mu), square(y))));
  const Array difference = sub(add(mu, div(mul(square(mu), y), 2)), mul(div(mu, 2), root));
  // The same as a quotient, where the difference cancels to nothing.
  const Array quotient = div(mul(mu, 2), add(add(2, mul(mu, y)), div(root, mu)));
  const Array x = where(greater(difference, 0), difference, quotient);
  return where(less_equal(z, div(mu, add(mu, x))), x, div(square(mu), x));
}

}  // namespace lockstep::random
