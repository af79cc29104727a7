#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/derivatives.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/fft.h>
#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::expect_error;

// Expected numbers are JAX's (0.10.2, x64), of the functions of the same names at the same points.
namespace {

/// Real and imaginary parts of complex numbers, [2, shape...] in one.
using Parts = std::pair<std::vector<double>, std::vector<double>>;

Array complex_point() { return complex(array({1.0, -0.5}), array({2.0, 0.25})); }
Array real_point() { return array({0.5, -2.0}); }
Array i_times(const Array& x) { return x * complex(array(0.0), array(1.0)); }

void check_parts(const Array& given, const Shape& shape, const Parts& expected) {
  CHECK(given.dtype() == complex128);
  check_close(real(given), shape, expected.first, 1e-12);
  check_close(imag(given), shape, expected.second, 1e-12);
}

struct Weights {
  Array phase, scale;
};
LOCKSTEP_TREE(Weights, phase, scale);

}  // namespace

TEST_CASE("the gradient of a real function of complex numbers is df/dx - i df/dy") {
  struct Row {
    std::string what;
    std::function<Array(const Array&)> function;
    Parts expected;
  };
  const std::vector<Row> rows = {
      {"abs squared", [](const Array& x) { return sum(square(abs(x))); }, {{2, -1}, {-4, -0.5}}},
      {"real of z^3", [](const Array& x) { return sum(real(x * x * x)); }, {{-9, 0.5625}, {12, -0.75}}},
      {"imag of exp",
       [](const Array& x) { return sum(imag(exp(x))); },
       {{2.471726672004819, 0.15005808662216327}, {1.1312043837568138, -0.5876750903439226}}},
      {"conj", [](const Array& x) { return sum(real(conj(x) * x * x)); }, {{7, 0.8125}, {-4, 0.25}}},
      {"a product with its conjugate",
       [](const Array& x) { return real(matmul(x, conj(x)) * complex(array(1.0), array(2.0))); },
       {{2, -1}, {-4, -0.5}}},
      {"imag of log", [](const Array& x) { return sum(imag(log(x))); }, {{-0.4, -0.8}, {-0.2, 1.6}}},
      {"fft",
       [](const Array& x) {
         return sum(square(abs(fft::fft(x))) * array({1.0, 3.0}));
       },
       {{10, -8}, {-15, 6}}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    check_parts(grad(row.function)(complex_point()), {2}, row.expected);
    check_parts(jit([&](const Array& x) { return grad(row.function)(x); })(complex_point()), {2}, row.expected);
    check_parts(value_and_grad(row.function)(complex_point()).second, {2}, row.expected);
    check_grads(row.function, std::tuple(complex_point()), {.order = 2});
  }
}

TEST_CASE("real and complex arguments beside each other") {
  const auto f = [](const Array& scale, const Array& x) {
    return sum(abs(scale * x + complex(array(0.0), array(1.0))));
  };
  check_close(grad(f)(real_point(), complex_point()), {2}, {2.182820625326997, -0.33541019662496846}, 1e-12);
  check_parts(grad<1>(f)(real_point(), complex_point()), {2},
              {{0.12126781251816648, -1.7888543819998317}, {-0.48507125007266594, 0.8944271909999159}});
  const auto of_struct = [&](const Weights& p) { return f(p.scale, p.phase); };
  const Weights gradient = grad(of_struct)(Weights{complex_point(), real_point()});
  check_close(gradient.scale, {2}, {2.182820625326997, -0.33541019662496846}, 1e-12);
  check_parts(gradient.phase, {2},
              {{0.12126781251816648, -1.7888543819998317}, {-0.48507125007266594, 0.8944271909999159}});
  check_parts(vmap(grad([](const Array& x) { return square(abs(x)); }))(complex_point()), {2}, {{2, -1}, {-4, -0.5}});
  check_close(real(grad([](const Array& x) { return sum(square(abs(x))); })(convert(complex_point(), complex64))), {2},
              {2, -1});
}

TEST_CASE("derivatives of holomorphic functions are complex numbers") {
  const auto cube = [](const Array& x) { return sum(x * x * x); };
  check_parts(grad(cube, {.holomorphic = true})(complex_point()), {2}, {{-9, 0.5625}, {12, -0.75}});
  check_parts(grad([](const Array& x) { return sum(sin(x)); }, {.holomorphic = true})(complex_point()), {2},
              {{2.0327230070196656, 0.9051501505596068}, {-3.0518977991518, 0.12110879604381165}});
  check_parts(hessian([&](const Array& x) { return cube(x) * x[0]; }, {.holomorphic = true})(complex_point()), {2, 2},
              {{-36, 0.5625, 0.5625, -6}, {48, -0.75, -0.75, -4.5}});
  const auto f = [](const Array& x) { return sin(x) * x[0]; };
  const Parts jacobian = {{11.302297118539434, 0, -0.494485780933195, 0.6629325584719835},
                          {2.9731492563091373, 0, 0.22168816414957482, 1.9314090971630253}};
  check_parts(jacrev(f, {.holomorphic = true})(complex_point()), {2, 2}, jacobian);
  check_parts(jacfwd(f, {.holomorphic = true})(complex_point()), {2, 2}, jacobian);
}

TEST_CASE("Jacobians between real and complex numbers") {
  check_parts(jacrev([](const Array& x) {
                return abs(x) * array({1.0, 2.0});
              })(complex_point()),
              {2, 2},
              {{0.4472135954999579, 0, 0, -1.7888543819998317}, {-0.8944271909999159, 0, 0, -0.8944271909999159}});
  check_parts(jacfwd([](const Array& x) { return exp(i_times(x)); })(real_point()), {2, 2},
              {{-0.479425538604203, 0, 0, 0.9092974268256817}, {0.8775825618903728, 0, 0, -0.4161468365471424}});
  const auto fourth = [](const Array& x) { return sum(square(square(abs(x)))); };
  check_parts(hvp(fourth, complex_point(), complex(array({0.0, 2.0}), array({1.0, 0.0}))), {2}, {{16, 6.5}, {-52, 2}});
}

TEST_CASE("what is not holomorphic, or said to be and is not complex, is refused with its type") {
  const auto length = [](const Array& x) { return sum(abs(x)); };
  const auto total = [](const Array& x) { return sum(x); };
  expect_error<DtypeError>([&] { grad(total)(complex_point()); }, "value_and_grad", "c128[]", ".holomorphic = true",
                           "vjp");
  expect_error<DtypeError>([&] { jacrev(total)(complex_point()); }, "jacrev", "c128[]", ".holomorphic = true", "vjp");
  expect_error<DtypeError>([&] { jacfwd(length)(complex_point()); }, "jacfwd: argument 0", "c128[2]",
                           ".holomorphic = true", "jvp");
  expect_error<DtypeError>([&] { hessian(length)(complex_point()); }, "jacfwd: argument 0", "c128[2]");
  expect_error<DtypeError>([&] { grad(length, {.holomorphic = true})(complex_point()); }, "value_and_grad", "f64[]",
                           "leave out holomorphic");
  expect_error<DtypeError>([&] { grad(total, {.holomorphic = true})(real_point()); }, "argument 0", "f64[2]",
                           "complex");
  expect_error<DtypeError>([&] { jacfwd(length, {.holomorphic = true})(complex_point()); }, "jacfwd", "f64[]");
  expect_error<DtypeError>([&] { grad(length)(arange(2)); }, "argument 0", "i32[2]", "another argument");
}
