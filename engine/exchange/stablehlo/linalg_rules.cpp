#include <cctype>
#include <string>

#include <fmt/format.h>

#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

Terms transformed(const Lowering& l) {
  auto kind = l.attrs().get<std::string>("kind");
  for (char& c : kind) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return {l.out.op("stablehlo.fft", {l.x()}, l.type(),
                   fmt::format("fft_length = {}, fft_type = #stablehlo<fft_type {}>",
                               array_attribute(l.attrs().get<Integers>("lengths")), kind))};
}

/// StableHLO leaves open what stands above the diagonal; here it is 0.
Terms factored(const Lowering& l) {
  const Term factor = l.out.op("stablehlo.cholesky", {l.x()}, l.type(), "lower = true");
  const int rank = l.type().shape.rank();
  const ArrayType places{DType::int32, l.type().shape, {}};
  const Term below = l.out.compare("GE", l.out.iota(places, rank - 2), l.out.iota(places, rank - 1));
  return {l.out.select(below, factor, l.out.splat(l.type(), 0))};
}

Term conjugated(const Lowering& l, const Term& a) {
  const ArrayType part{a.type.dtype == DType::complex64 ? DType::float32 : DType::float64, a.type.shape, {}};
  const Term imaginary = l.out.op("stablehlo.negate", {l.out.op("stablehlo.imag", {a}, part)}, part);
  return l.out.op("stablehlo.complex", {l.out.op("stablehlo.real", {a}, part), imaginary}, a.type);
}

Terms solved(const Lowering& l) {
  const auto flag = [&](const char* name) { return l.attrs().get<bool>(name); };
  const bool conjugate = flag("conjugate_a") && is_complex(l.x().type.dtype), transpose = flag("transpose_a");
  const Term a = conjugate && !transpose ? conjugated(l, l.x()) : l.x();
  const char* form = !transpose ? "NO_TRANSPOSE" : conjugate ? "ADJOINT" : "TRANSPOSE";
  return {l.out.op("stablehlo.triangular_solve", {a, l.operands[1]}, l.type(),
                   fmt::format("left_side = {}, lower = {}, transpose_a = #stablehlo<transpose {}>, unit_diagonal = {}",
                               flag("left_side"), flag("lower"), form, flag("unit_diagonal")))};
}

}  // namespace

LoweringRule linalg_rule(const ir::Primitive& primitive) {
  if (&primitive == &primitives::fft()) return transformed;
  if (&primitive == &primitives::cholesky()) return factored;
  if (&primitive == &primitives::triangular_solve()) return solved;
  return nullptr;
}

}  // namespace lockstep::exchange
