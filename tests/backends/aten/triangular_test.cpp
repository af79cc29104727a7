#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/isa.h>

#include "backends/cpu/cut_kernel.h"
#include "engine/ops/linalg/matrices.h"
#include "engine/ops/primitives.h"
#include "tests/backends/aten/kernel_runs.h"
#include "tests/support/backend_op.h"
#include "tests/support/max_isa.h"
#include "tests/support/skip.h"

// cholesky and triangular_solve of floats have the bits of plain loops, whatever the vectors, parts and systems beside.
namespace lockstep::tests {

namespace {

template <class T>
constexpr DType real_dtype = sizeof(T) == 8 ? DType::float64 : DType::float32;

template <class T>
using Reals = std::vector<T>;

template <class T>
Reals<T> drawn_reals(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<T> normal;
  Reals<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = normal(random);
  return values;
}

template <class T>
struct Matrices {
  Reals<T>& elements;
  std::int64_t rows, columns;
  T& operator()(std::int64_t matrix, std::int64_t i, std::int64_t j) const {
    return elements[static_cast<std::size_t>((matrix * rows + i) * columns + j)];
  }
};

template <class T>
Memory memory_of_reals(const Reals<T>& elements) {
  return Memory(std::as_bytes(std::span<const T>(elements)));
}

/// The kernel's result, of the whole and of parts of one index each, which are the same.
template <class T>
Reals<T> computed(const BoundOp& bound, const std::vector<Memory>& operands) {
  const auto whole = bound.run(std::span<const Memory>(operands))[0];
  const auto parts = dynamic_cast<const backend::cpu::CutKernel&>(*bound.kernel).parts_of(1);
  std::vector<ArrayView> views;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    views.push_back(contiguous_view(operands[i].data(), bound.inputs[i].dtype, bound.inputs[i].shape));
  }
  const Memory result(whole.size());
  const std::vector<ArrayView> out = {contiguous_view(result.data(), bound.outputs[0].dtype, bound.outputs[0].shape)};
  for (const auto& part : parts) {
    const Memory scratch(part->scratch_bytes());
    part->run({views, out, scratch.data()});
  }
  if (!parts.empty()) CHECK(result.bytes() == whole);
  Reals<T> elements(whole.size() / sizeof(T));
  std::memcpy(elements.data(), whole.data(), whole.size());
  return elements;
}

struct SolveCase {
  std::int64_t matrices, n, systems;
  ops::TriangularSolve how;
};

/// Substitution, each equation's products taken off in the order in which their unknowns are found.
template <class T>
void substitute(const SolveCase& c, const Matrices<T>& a, const Matrices<T>& x, std::int64_t matrix) {
  const auto coefficient = [&](std::int64_t i, std::int64_t j) {
    return c.how.transpose_a == c.how.left_side ? a(matrix, j, i) : a(matrix, i, j);
  };
  const auto unknown = [&](std::int64_t i, std::int64_t s) -> T& {
    return c.how.left_side ? x(matrix, i, s) : x(matrix, s, i);
  };
  const bool forward = (c.how.lower != c.how.transpose_a) == c.how.left_side;
  const auto nth_found = [&](std::int64_t step) { return forward ? step : c.n - 1 - step; };
  for (std::int64_t s = 0; s < c.systems; ++s) {
    for (std::int64_t step = 0; step < c.n; ++step) {
      const std::int64_t i = nth_found(step);
      T sum = unknown(i, s);
      for (std::int64_t k = 0; k < step; ++k)
        sum = std::fma(-coefficient(i, nth_found(k)), unknown(nth_found(k), s), sum);
      unknown(i, s) = c.how.unit_diagonal ? sum : sum / coefficient(i, i);
    }
  }
}

template <class T>
void check_solve(const SolveCase& c, std::mt19937& random) {
  CAPTURE(c.matrices);
  CAPTURE(c.n);
  CAPTURE(c.systems);
  CAPTURE(to_string(c.how.attrs()));
  const Shape b_shape = c.how.left_side ? Shape{c.matrices, c.n, c.systems} : Shape{c.matrices, c.systems, c.n};
  Reals<T> a = drawn_reals<T>(c.matrices * c.n * c.n, random), x = drawn_reals<T>(b_shape.size(), random);
  const Matrices<T> matrices{a, c.n, c.n};
  for (T& element : a) element /= static_cast<T>(c.n);
  for (std::int64_t m = 0; m < c.matrices; ++m) {
    for (std::int64_t i = 0; i < c.n; ++i) {
      matrices(m, i, i) += 2;
      for (std::int64_t j = 0; j < c.n; ++j) {  // what is not read
        if (c.how.lower ? j > i : j < i) matrices(m, i, j) = std::numeric_limits<T>::quiet_NaN();
      }
    }
  }
  const BoundOp bound(ops::primitives::triangular_solve(),
                      {{real_dtype<T>, {c.matrices, c.n, c.n}, {}}, {real_dtype<T>, b_shape, {}}}, c.how.attrs());
  std::vector<Memory> operands;
  operands.push_back(memory_of_reals(a));
  operands.push_back(memory_of_reals(x));
  const Reals<T> result = computed<T>(bound, operands);
  for (std::int64_t m = 0; m < c.matrices; ++m) {
    substitute<T>(c, matrices, {x, b_shape.dim(-2), b_shape.dim(-1)}, m);
  }
  CHECK(result == x);
}

/// Row after row of the transposed factor.
template <class T>
void factor(const Matrices<T>& a, const Matrices<T>& l, std::int64_t matrix) {
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = i; j < a.rows; ++j) {
      T sum = a(matrix, j, i);
      for (std::int64_t k = 0; k < i; ++k) sum = std::fma(-l(matrix, i, k), l(matrix, j, k), sum);
      l(matrix, j, i) = i == j ? std::sqrt(sum) : sum / l(matrix, i, i);
    }
  }
}

template <class T>
void check_factor(std::int64_t count, std::int64_t n, std::mt19937& random) {
  CAPTURE(count);
  CAPTURE(n);
  Reals<T> a = drawn_reals<T>(count * n * n, random), l(a.size());
  const Matrices<T> matrices{a, n, n}, factors{l, n, n};
  for (std::int64_t m = 0; m < count; ++m) {
    for (std::int64_t i = 0; i < n; ++i) matrices(m, i, i) = static_cast<T>(2 * n) + 1;
    factor(matrices, factors, m);
  }
  const BoundOp bound(ops::primitives::cholesky(), {{real_dtype<T>, {count, n, n}, {}}}, {});
  std::vector<Memory> operands;
  operands.push_back(memory_of_reals(a));
  CHECK(computed<T>(bound, operands) == l);
}

bool has_vectors() { return backend::usable_isa() != backend::Isa::none; }
constexpr const char* no_vectors = "no vector instructions may be used";

template <class T>
void check_solves() {
  std::mt19937 random(5);
  const auto up_to = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(1, most)(random); };
  for (int bits = 0; bits < 16; ++bits) {
    const ops::TriangularSolve how((bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, false, (bits & 8) != 0);
    for (const std::int64_t n : {up_to(9), up_to(64), 64 + up_to(140)}) {
      check_solve<T>({up_to(3), n, 4 + up_to(150), how}, random);
    }
    check_solve<T>({1, up_to(64), 1, how}, random);
  }
}

template <class T>
void check_factors() {
  std::mt19937 random(6);
  for (const std::int64_t n : {1, 3, 4, 15, 16, 17, 63, 64, 65, 130, 256, 257, 333}) {
    check_factor<T>(n < 20 ? 3 : 1, n, random);
  }
}

}  // namespace

TEST_CASE("triangular systems have the bits of a substitution in plain loops") {
  for (const char* isa : {"avx2", "avx512"}) {
    const MaxIsa most(isa);
    if (!has_vectors()) return skip(no_vectors);
    CAPTURE(isa);
    check_solves<float>();
    check_solves<double>();
  }
}

TEST_CASE("factors of positive definite matrices have the bits of plain loops") {
  for (const char* isa : {"avx2", "avx512"}) {
    const MaxIsa most(isa);
    if (!has_vectors()) return skip(no_vectors);
    CAPTURE(isa);
    check_factors<float>();
    check_factors<double>();
  }
}

TEST_CASE("a matrix that is not positive definite has no factor, and those beside it have theirs") {
  if (!has_vectors()) return skip(no_vectors);
  constexpr std::int64_t n = 70;
  Reals<double> a(3 * n * n);
  const Matrices<double> matrices{a, n, n};
  for (std::int64_t m = 0; m < 3; ++m) {
    for (std::int64_t i = 0; i < n; ++i) matrices(m, i, i) = 4;
  }
  matrices(1, n - 1, n - 1) = -1;
  const BoundOp bound(ops::primitives::cholesky(), {{DType::float64, {3, n, n}, {}}}, {});
  std::vector<Memory> operands;
  operands.push_back(memory_of_reals(a));
  const auto bytes = bound.run(std::span<const Memory>(operands))[0];
  Reals<double> l(a.size());
  std::memcpy(l.data(), bytes.data(), bytes.size());
  const Matrices<double> factors{l, n, n};
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      CHECK(factors(0, i, j) == (i == j ? 2 : 0));
      CHECK(std::isnan(factors(1, i, j)) == (j <= i));
      CHECK(factors(2, i, j) == (i == j ? 2 : 0));
    }
  }
}

}  // namespace lockstep::tests
