#include <algorithm>
#include <cctype>
#include <string>

#include <fmt/format.h>

#include "engine/exchange/stablehlo/exporter.h"
#include "engine/ops/primitives.h"

namespace lockstep::exchange {
namespace {

namespace primitives = ops::primitives;

/// One op's transform, along the last dimensions.
Term transform(const Lowering& l, const Term& x, const std::string& kind, const Integers& lengths,
               const ArrayType& type) {
  return l.out.op("stablehlo.fft", {x}, type,
                  fmt::format("fft_length = {}, fft_type = #stablehlo<fft_type {}>", array_attribute(lengths), kind));
}

/// A complex transform along one dimension.
Term transform_along(const Lowering& l, const Term& x, const std::string& kind, int dim) {
  const int last = x.type.shape.rank() - 1;
  const Term moved = l.out.swap_axes(x, dim, last);
  return l.out.swap_axes(transform(l, moved, kind, {x.type.shape[dim]}, moved.type), dim, last);
}

/// There an op transforms three dimensions at most; those before are transformed where the values are complex.
Terms fft_rule(const Lowering& l) {
  auto kind = l.attrs().get<std::string>("kind");
  for (char& c : kind) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  Integers lengths = l.attrs().get<Integers>("lengths");
  const int rank = l.type().shape.rank();
  const int begin = rank - static_cast<int>(lengths.size()), end = std::max(begin, rank - 3);
  lengths.erase(lengths.begin(), lengths.begin() + (end - begin));
  const bool to_real = kind == "IRFFT";
  const std::string of_others = kind == "FFT" || kind == "RFFT" ? "FFT" : "IFFT";
  Term x = l.x();
  for (int d = begin; d < end && to_real; ++d) x = transform_along(l, x, of_others, d);
  Term y = transform(l, x, kind, lengths, l.type());
  for (int d = begin; d < end && !to_real; ++d) y = transform_along(l, y, of_others, d);
  return {y};
}

/// StableHLO leaves open what stands above the diagonal; here it is 0.
Terms cholesky_rule(const Lowering& l) {
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

Terms triangular_solve_rule(const Lowering& l) {
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
  if (&primitive == &primitives::fft()) return fft_rule;
  if (&primitive == &primitives::cholesky()) return cholesky_rule;
  if (&primitive == &primitives::triangular_solve()) return triangular_solve_rule;
  return nullptr;
}

}  // namespace lockstep::exchange
