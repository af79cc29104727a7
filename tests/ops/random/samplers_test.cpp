#include <cmath>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/samplers.h>
#include <lockstep/error.h>

#include "engine/ops/primitives.h"
#include "tests/support/expect_error.h"
#include "tests/support/op_functions.h"

namespace lockstep::tests {

namespace {

struct Slope {
  double a, x, expected;
};

}  // namespace

// Differences of the quantile function at a fixed quantile (scipy 1.15 gammaincinv), relative step 1e-6.
TEST_CASE("gamma_grad is the derivative of a quantile") {
  for (const Slope& c :
       {Slope{0.1, 6.073048362407912e-21, 2.8012950579654492e-18},
        Slope{0.1, 0.0005933911044602284, 0.041597742364844606}, Slope{0.1, 3.3636770117187536, 9.69980658266496},
        Slope{0.7, 0.0012126230241013424, 0.012003024396112632}, Slope{0.7, 0.4074237484764413, 0.9298175994807487},
        Slope{0.7, 6.0637395638872755, 3.0300830744148985}, Slope{1, 0.010050335853501437, 0.0507620964163303},
        Slope{1, 6.907755278982137, 2.638015392163473}, Slope{4, 0.8232486863453852, 0.42537882380537234},
        Slope{4, 3.672060748850897, 0.998537549867651}, Slope{4, 13.06224077918807, 1.77602285874762},
        Slope{50, 35.03244746269989, 0.8354183355597545}, Slope{50, 74.72462638951943, 1.2183455256578286},
        Slope{1000, 927.9081597966425, 0.9632157268341603}, Slope{1000, 1100.5780982933145, 1.0488577926217413},
        Slope{1e5, 99265.81516346135, 0.9963217194350809}, Slope{1e5, 100980.06779195923, 1.0048860828818622},
        Slope{1e6, 997675.1228599253, 0.998836826011686}, Slope{1e6, 1003093.0823698544, 1.0015451159624689}}) {
    CAPTURE(c.a);
    CAPTURE(c.x);
    CHECK(backend::samplers::gamma_grad(c.a, c.x, false) == doctest::Approx(c.expected).epsilon(1e-7));
    CHECK(backend::samplers::gamma_grad(c.a, std::log(c.x), true) == doctest::Approx(c.expected / c.x).epsilon(1e-7));
  }
}

TEST_CASE("gamma_grad at the ends") {
  CHECK(backend::samplers::gamma_grad(2, 0, false) == 0);
  CHECK(backend::samplers::gamma_grad(2, INFINITY, false) == 1);
  CHECK(std::isnan(backend::samplers::gamma_grad(0, 1, false)));
  CHECK(std::isnan(backend::samplers::gamma_grad(2, NAN, false)));
  // Where x underflows: P(a, x) = x^a / Gamma(a + 1), so d log(x) / da = (digamma(a + 1) - log(x)) / a.
  const double digamma_of_1_01 = -0.5608854578687;
  CHECK(backend::samplers::gamma_grad(0.01, -2000, true) ==
        doctest::Approx((digamma_of_1_01 + 2000) / 0.01).epsilon(1e-9));
}

TEST_CASE("gamma at the ends of its parameter") {
  const backend::samplers::Key key = {1, 2};
  CHECK(backend::samplers::gamma(key, 0.0, false) == 0);
  CHECK(backend::samplers::gamma(key, 0.0, true) == -INFINITY);
  CHECK(std::isnan(backend::samplers::gamma(key, -0.5, false)));
  CHECK(std::isnan(backend::samplers::gamma(key, NAN, true)));
  CHECK(backend::samplers::gamma(key, INFINITY, false) == INFINITY);
  CHECK(std::exp(backend::samplers::gamma(key, 0.4, true)) ==
        doctest::Approx(backend::samplers::gamma(key, 0.4, false)).epsilon(1e-12));
  CHECK(backend::samplers::gamma(key, 1e30, false) == doctest::Approx(1e30));
}

TEST_CASE("counts at arguments too large for their tests of acceptance") {
  const backend::samplers::Key key = {3, 4};
  CHECK(backend::samplers::poisson(key, 1e30) == doctest::Approx(1e30));
  CHECK(backend::samplers::binomial(key, 1e300, 0.25) == doctest::Approx(0.25e300));
  CHECK(backend::samplers::poisson(key, 1e-300) == 0);
}

TEST_CASE("a gamma draw's derivative follows the quantile and exists once") {
  const ir::Primitive& gamma = ops::primitives::random_gamma();
  const ir::Sample sample{
      {{{DType::key, {4}, {}}, -9e18, 9e18}, {{float64, {4}, {}}, 0.3, 5}}, {{"log_space", false}}, {}};
  std::vector<ir::ReferenceArray> arguments = draw(sample, 3);
  arguments.push_back(ir::reference_zeros({float64, {4}, {}}));
  arguments.back().floats().assign(4, 2.0);
  const FunctionPtr once = jvp_function(gamma, sample, {false, true});
  const std::vector<ir::ReferenceArray> tangent = run(once, arguments);
  std::vector<ir::ReferenceArray> draws = {ir::reference_zeros({float64, {4}, {}})};
  gamma.reference({std::span(arguments).first(2), sample.attrs, draws});
  for (std::size_t i = 0; i < 4; ++i) {
    const double grad = backend::samplers::gamma_grad(arguments[1].floats()[i], draws[0].floats()[i], false);
    CHECK(tangent[0].floats()[i] == doctest::Approx(2 * grad));
  }
  const ir::Primitive& grad = ops::primitives::random_gamma_grad();
  const ir::Sample second{{{{float64, {4}, {}}, 0.3, 5}, {{float64, {4}, {}}, 0.3, 5}}, {{"log_space", false}}, {}};
  expect_error<TraceError>(
      [&] {
        jvp_function(grad, second, {true, false});
      },
      "random_gamma_grad", "not twice", "stop_gradient");
}

}  // namespace lockstep::tests
