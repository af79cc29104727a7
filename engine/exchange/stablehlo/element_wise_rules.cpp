#include <cmath>
#include <numbers>
#include <string>
#include <utility>

#include "engine/exchange/stablehlo/element_wise.h"
#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

/// There abs and sign have no form of unsigned integers.
Terms magnitude(const Lowering& l) {
  if (is_unsigned_integer(l.x().type.dtype)) return {l.x()};
  return {l.out.op("stablehlo.abs", {l.x()}, l.type())};
}
Terms signs(const Lowering& l) {
  if (!is_unsigned_integer(l.x().type.dtype)) return {l.out.op("stablehlo.sign", {l.x()}, l.type())};
  return {l.out.convert(l.out.compare("NE", l.x(), l.out.zeros(l.x().type)), l.type().dtype)};
}
Terms zeta_rule(const Lowering& l) {
  return {l.out.op("chlo.zeta", {l.out.splat(l.type(), l.attrs().get<double>("s")), l.x()}, l.type())};
}

Terms shared(const Lowering& l) {
  return {l.out.op(find_shared(element_wise_ops(), *l.equation.primitive)->name, l.operands, l.type())};
}
Terms comparison(const Lowering& l) {
  return {l.out.compare(find_shared(comparisons(), *l.equation.primitive)->name, l.operands[0], l.operands[1])};
}
Terms same(const Lowering& l) { return {l.x()}; }
Terms conversion(const Lowering& l) { return {l.out.convert(l.x(), l.type().dtype)}; }
Terms bitcast_rule(const Lowering& l) { return {l.out.op("stablehlo.bitcast_convert", {l.x()}, l.type())}; }

Terms power_of_two(const Lowering& l) {
  const Term scaled = l.out.binary("stablehlo.multiply", l.x(), l.out.splat(l.type(), std::numbers::ln2));
  return {l.out.op("stablehlo.exponential", {scaled}, l.type())};
}
Terms logarithm_of_two(const Lowering& l) {
  const Term natural = l.out.op("stablehlo.log", {l.x()}, l.type());
  return {l.out.binary("stablehlo.divide", natural, l.out.splat(l.type(), std::numbers::ln2))};
}
Terms multiply_add(const Lowering& l) {
  return {l.out.binary("stablehlo.add", l.out.binary("stablehlo.multiply", l.x(), l.operands[1]), l.operands[2])};
}

/// By repeated squaring, as here.
Terms whole_power(const Lowering& l) {
  const auto exponent = l.attrs().get<std::int64_t>("exponent");
  const Term one = is_integer(l.type().dtype) ? l.out.splat_integer(l.type(), 1) : l.out.splat(l.type(), 1);
  Term result = one, square = l.x();
  bool has_factor = false;
  for (std::uint64_t rest = static_cast<std::uint64_t>(std::abs(exponent)); rest > 0; rest /= 2) {
    if (rest % 2 == 1)
      result = std::exchange(has_factor, true) ? l.out.binary("stablehlo.multiply", result, square) : square;
    if (rest > 1) square = l.out.binary("stablehlo.multiply", square, square);
  }
  return {exponent < 0 ? l.out.binary("stablehlo.divide", one, result) : result};
}

Terms conjugate(const Lowering& l) {
  const ArrayType part{l.type().dtype == DType::complex64 ? DType::float32 : DType::float64, l.type().shape, {}};
  const Term re = l.out.op("stablehlo.real", {l.x()}, part), im = l.out.op("stablehlo.imag", {l.x()}, part);
  return {l.out.op("stablehlo.complex", {re, l.out.op("stablehlo.negate", {im}, part)}, l.type())};
}

Terms narrower(const Lowering& l) {
  return {l.out.op("stablehlo.reduce_precision", {l.x()}, l.type(),
                   "exponent_bits = " + std::to_string(l.attrs().get<std::int64_t>("exponent_bits")) +
                       " : i32, mantissa_bits = " + std::to_string(l.attrs().get<std::int64_t>("mantissa_bits")) +
                       " : i32")};
}

}  // namespace

LoweringRule element_wise_rule(const ir::Primitive& primitive) {
  static const std::map<const ir::Primitive*, LoweringRule> rules = {
      {&primitives::stop_gradient(), same}, {&primitives::checkpoint_name(), same},
      {&primitives::with_layout(), same},   {&primitives::reshard(), same},
      {&primitives::convert(), conversion}, {&primitives::bitcast_convert(), bitcast_rule},
      {&primitives::exp2(), power_of_two},  {&primitives::log2(), logarithm_of_two},
      {&primitives::fma(), multiply_add},   {&primitives::integer_pow(), whole_power},
      {&primitives::conj(), conjugate},     {&primitives::reduce_precision(), narrower},
      {&primitives::abs(), magnitude},      {&primitives::sign(), signs},
      {&primitives::zeta(), zeta_rule},
  };
  if (const auto found = rules.find(&primitive); found != rules.end()) return found->second;
  if (find_shared(element_wise_ops(), primitive) != nullptr) return shared;
  return find_shared(comparisons(), primitive) != nullptr ? comparison : nullptr;
}

}  // namespace lockstep::exchange
