#include "engine/exchange/stablehlo/element_wise.h"

#include <algorithm>

#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

constexpr SharedOp element_wise[] = {
    {"stablehlo.abs", primitives::abs, lax::abs},
    {"stablehlo.add", primitives::add, lax::add},
    {"stablehlo.and", primitives::bitwise_and, lax::bitwise_and},
    {"stablehlo.atan2", primitives::atan2, lax::atan2},
    {"stablehlo.cbrt", primitives::cbrt, lax::cbrt},
    {"stablehlo.ceil", primitives::ceil, lax::ceil},
    {"stablehlo.complex", primitives::complex, lax::complex},
    {"stablehlo.cosine", primitives::cos, lax::cos},
    {"stablehlo.count_leading_zeros", primitives::clz, lax::clz},
    {"stablehlo.divide", primitives::div, lax::div},
    {"stablehlo.exponential", primitives::exp, lax::exp},
    {"stablehlo.exponential_minus_one", primitives::expm1, lax::expm1},
    {"stablehlo.floor", primitives::floor, lax::floor},
    {"stablehlo.imag", primitives::imag, lax::imag},
    {"stablehlo.is_finite", primitives::is_finite, lax::is_finite},
    {"stablehlo.log", primitives::log, lax::log},
    {"stablehlo.log_plus_one", primitives::log1p, lax::log1p},
    {"stablehlo.logistic", primitives::logistic, lax::logistic},
    {"stablehlo.maximum", primitives::maximum, lax::maximum},
    {"stablehlo.minimum", primitives::minimum, lax::minimum},
    {"stablehlo.multiply", primitives::mul, lax::mul},
    {"stablehlo.negate", primitives::neg, lax::neg},
    {"stablehlo.not", primitives::bitwise_not, lax::bitwise_not},
    {"stablehlo.or", primitives::bitwise_or, lax::bitwise_or},
    {"stablehlo.popcnt", primitives::population_count, lax::population_count},
    {"stablehlo.power", primitives::pow, lax::pow},
    {"stablehlo.real", primitives::real, lax::real},
    {"stablehlo.remainder", primitives::rem, lax::rem},
    {"stablehlo.round_nearest_even", primitives::round, lax::round},
    {"stablehlo.rsqrt", primitives::rsqrt, lax::rsqrt},
    {"stablehlo.select", primitives::select, lax::select},
    {"stablehlo.shift_left", primitives::shift_left, lax::shift_left},
    {"stablehlo.shift_right_arithmetic", primitives::shift_right_arithmetic, lax::shift_right_arithmetic},
    {"stablehlo.shift_right_logical", primitives::shift_right_logical, lax::shift_right_logical},
    {"stablehlo.sign", primitives::sign, lax::sign},
    {"stablehlo.sine", primitives::sin, lax::sin},
    {"stablehlo.sqrt", primitives::sqrt, lax::sqrt},
    {"stablehlo.subtract", primitives::sub, lax::sub},
    {"stablehlo.tan", primitives::tan, lax::tan},
    {"stablehlo.tanh", primitives::tanh, lax::tanh},
    {"stablehlo.xor", primitives::bitwise_xor, lax::bitwise_xor},
    {"chlo.acos", primitives::acos, lax::acos},
    {"chlo.acosh", primitives::acosh, lax::acosh},
    {"chlo.asin", primitives::asin, lax::asin},
    {"chlo.asinh", primitives::asinh, lax::asinh},
    {"chlo.atan", primitives::atan, lax::atan},
    {"chlo.atanh", primitives::atanh, lax::atanh},
    {"chlo.bessel_i1e", primitives::bessel_i1e, lax::bessel_i1e},
    {"chlo.cosh", primitives::cosh, lax::cosh},
    {"chlo.digamma", primitives::digamma, lax::digamma},
    {"chlo.erf", primitives::erf, lax::erf},
    {"chlo.erf_inv", primitives::erf_inv, lax::erf_inv},
    {"chlo.erfc", primitives::erfc, lax::erfc},
    {"chlo.lgamma", primitives::lgamma, lax::lgamma},
    {"chlo.next_after", primitives::nextafter, lax::nextafter},
    {"chlo.sinh", primitives::sinh, lax::sinh},
};

constexpr SharedOp compared[] = {
    {"EQ", primitives::equal, lax::equal},     {"NE", primitives::not_equal, lax::not_equal},
    {"LT", primitives::less, lax::less},       {"LE", primitives::less_equal, lax::less_equal},
    {"GT", primitives::greater, lax::greater}, {"GE", primitives::greater_equal, lax::greater_equal},
};

constexpr SharedOp reduced[] = {
    {"stablehlo.add", primitives::reduce_sum, lax::reduce_sum},
    {"stablehlo.multiply", primitives::reduce_prod, lax::reduce_prod},
    {"stablehlo.maximum", primitives::reduce_max, lax::reduce_max},
    {"stablehlo.minimum", primitives::reduce_min, lax::reduce_min},
    {"stablehlo.and", primitives::reduce_and, lax::reduce_and},
    {"stablehlo.or", primitives::reduce_or, lax::reduce_or},
    {"stablehlo.xor", primitives::reduce_xor, lax::reduce_xor},
};

constexpr SharedOp cumulative_table[] = {
    {"stablehlo.add", primitives::cumsum, lax::cumsum},
    {"stablehlo.multiply", primitives::cumprod, lax::cumprod},
    {"stablehlo.maximum", primitives::cummax, lax::cummax},
    {"stablehlo.minimum", primitives::cummin, lax::cummin},
};

constexpr SharedOp scatter_table[] = {
    {"", primitives::scatter, lax::scatter},
    {"stablehlo.add", primitives::scatter_add, lax::scatter_add},
    {"stablehlo.multiply", primitives::scatter_mul, lax::scatter_mul},
    {"stablehlo.minimum", primitives::scatter_min, lax::scatter_min},
    {"stablehlo.maximum", primitives::scatter_max, lax::scatter_max},
};

}  // namespace

std::span<const SharedOp> element_wise_ops() { return element_wise; }
std::span<const SharedOp> comparisons() { return compared; }
std::span<const SharedOp> reductions() { return reduced; }
std::span<const SharedOp> cumulative_ops() { return cumulative_table; }
std::span<const SharedOp> scatters() { return scatter_table; }

std::string logical_name(std::string_view name, DType dtype) {
  if (dtype == DType::bool_ && (name == "stablehlo.add" || name == "stablehlo.maximum")) return "stablehlo.or";
  if (dtype == DType::bool_ && (name == "stablehlo.multiply" || name == "stablehlo.minimum")) return "stablehlo.and";
  return std::string(name);
}

const SharedOp* find_shared(std::span<const SharedOp> ops, std::string_view name) {
  const auto found = std::ranges::find(ops, name, &SharedOp::name);
  return found == ops.end() ? nullptr : &*found;
}

const SharedOp* find_shared(std::span<const SharedOp> ops, const ir::Primitive& primitive) {
  const auto found = std::ranges::find_if(ops, [&](const SharedOp& op) { return &op.primitive() == &primitive; });
  return found == ops.end() ? nullptr : &*found;
}

}  // namespace lockstep::exchange
