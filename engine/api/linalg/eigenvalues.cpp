#include <complex>
#include <vector>

#include <lockstep/custom_op.h>
#include <lockstep/elementwise.h>
#include <lockstep/indexing.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>

#include "engine/api/linalg/matrices.h"
#include "engine/api/linalg/qr_algorithm.h"

namespace lockstep::linalg {

namespace {

std::vector<ArrayType> types_of_eig(std::span<const ArrayType> operands) {
  const ArrayType& a = operands[0];
  const bool wide = a.dtype == float64 || a.dtype == complex128;
  const DType dtype = wide ? complex128 : complex64;
  return {{dtype, a.shape.erase(a.shape.rank() - 1), {}}, {dtype, a.shape, {}}};
}

template <class T, class Part>
void eig_of_matrices(const KernelCall& call) {
  using Complex = std::complex<double>;
  const std::int64_t n = call.operand_shape(0).dim(-1);
  const auto size = static_cast<std::size_t>(n * n), rows = static_cast<std::size_t>(n);
  const auto a = call.operand<T>(0);
  const auto values = call.result<std::complex<Part>>(0), vectors = call.result<std::complex<Part>>(1);
  std::vector<Complex> matrix(size), found(rows), columns(size);
  for (std::size_t m = 0; m < (size == 0 ? 0 : a.size() / size); ++m) {
    for (std::size_t i = 0; i < size; ++i) matrix[i] = Complex(a[m * size + i]);
    api::find_eigenvectors(n, matrix, found, columns);
    for (std::size_t i = 0; i < rows; ++i) values[m * rows + i] = std::complex<Part>(found[i]);
    for (std::size_t i = 0; i < size; ++i) vectors[m * size + i] = std::complex<Part>(columns[i]);
  }
}

void run_eig(const KernelCall& call) {
  switch (call.operand_dtype(0)) {
    case DType::float32:
      return eig_of_matrices<float, float>(call);
    case DType::float64:
      return eig_of_matrices<double, double>(call);
    case DType::complex64:
      return eig_of_matrices<std::complex<float>, float>(call);
    default:
      return eig_of_matrices<std::complex<double>, double>(call);
  }
}

/// 1 / (w[j] - w[i]), 0 where that is not to be had.
Array inverse_distances(const Array& w) {
  const Array distance = expand_dims(w, -2) - expand_dims(w, -1);
  const Array none = convert(abs(distance) == 0, w.dtype());
  return (1 - none) / (distance + none);
}

/// With p = v^-1 da v: dw is its diagonal, and dv = v (f p) + v c, where c keeps the columns' length and phase.
std::vector<Array> eig_tangents(std::span<const Array> operands, std::span<const Array> results,
                                std::span<const Array> tangents) {
  const Array &w = results[0], &v = results[1];
  if (!tangents[0].has_value() || operands[0].dim(-1) == 0) return {zeros_like(w), zeros_like(v)};
  const Array p = solve(v, matmul(convert(tangents[0], v.dtype()), v));
  const Array turned = matmul(v, inverse_distances(w) * p);
  const Array along = sum(conj(v) * turned, {-2}, true);
  const Array size = abs(stop_gradient(v));
  const Array fixed = expand_dims(argmax(size >= 0.7 * max(size, {-2}, true), -2), -2);
  // What is read outside would be NaN, and the rule not linear.
  const auto at = [&](const Array& x) { return take_along_axis(x, fixed, -2, IndexMode::promise_in_bounds); };
  const Array at_fixed = imag(at(turned)) / real(at(v));
  return {diagonal(p, 0, -2, -1), turned - v * complex(real(along), at_fixed)};
}

const CustomOp& eig_op() {
  static const CustomOp op({.name = "eig",
                            .infer = types_of_eig,
                            .kernel = run_eig,
                            .vmap_method = VmapMethod::broadcast_all,
                            .jvp = eig_tangents,
                            .check = RuleCheck::never});
  return op;
}

}  // namespace

Eig eig(const ArrayOperand& a) {
  const std::vector<Array> found = eig_op().call(std::vector<Array>{api::square_matrices("linalg.eig", a)});
  return {found[0], found[1]};
}

Array eigvals(const ArrayOperand& a) { return eig(a).eigenvalues; }

}  // namespace lockstep::linalg
