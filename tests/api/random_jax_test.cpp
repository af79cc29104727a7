#include <doctest/doctest.h>

#include <lockstep/ops.h>
#include <lockstep/random.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"

// Draws against values printed by jax.random 0.10.2 (threefry, partitionable) for key(1234): exact for integers, to
// rounding for floats.
using namespace lockstep;
using tests::check_close;

namespace {

using Numbers = std::vector<double>;

Array key() { return random::key(1234); }

}  // namespace

TEST_CASE("randint is JAX's") {
  check_close(random::randint(key(), {10}, 0, 10), {10}, Numbers{7, 7, 1, 2, 6, 2, 8, 2, 3, 7}, 0);
  check_close(random::randint(key(), {3, 4}, -1000, 1000000), {3, 4},
              Numbers{123349, 922929, 23837, 298808, 805092, 264046, 550854, 327534, 605009, 205131, 732368, 765946},
              0);
  check_close(random::randint(key(), {8}, 0, 256, uint8), {8}, Numbers{53, 33, 93, 32, 28, 230, 166, 222}, 0);
  check_close(random::randint(key(), {8}, -100, 200, int8), {8}, Numbers{-11, -95, 5, 80, -28, 66, 2, 106}, 0);
  check_close(random::randint(key(), {4}, -70000, 70000, int16), {4}, Numbers{26933, 5665, -30883, 32}, 0);
  check_close(random::randint(key(), {4}, std::int64_t{-2147483648}, 2147483647), {4},
              Numbers{1859643701, -1845258719, -2068379811, -1858895840}, 0);
  check_close(random::randint(key(), {6}, 0, 4000000000, uint32), {6},
              Numbers{7127349, 302224929, 79103837, 288587808, 1796600092, 3021283046}, 0);
  CHECK(random::randint(key(), {4}, 0, std::int64_t{1} << 32, uint32).to_vector<std::uint32_t>() ==
        std::vector<std::uint32_t>{4007127349, 302224929, 79103837, 288587808});
  CHECK(random::randint(key(), {4}, -1000000000000000, 100000000000000000, int64).to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{87126185714736088, 56620069580710316, 30172535321453642, 8004574119544588});
  CHECK(random::randint(key(), {4}, 5, 1000000000000000000, uint64).to_vector<std::uint64_t>() ==
        std::vector<std::uint64_t>{784126185714736138, 774620069580710326, 878172535321453717, 150004574119544613});
  check_close(random::randint(key(), {2, 3}, array({0, 10, 100}), array({10, 100, 100})), {2, 3},
              Numbers{7, 27, 100, 2, 16, 100}, 0);
}

TEST_CASE("permutation is JAX's") {
  check_close(random::permutation(key(), 20), {20},
              Numbers{12, 2, 15, 3, 1, 10, 16, 7, 11, 6, 19, 17, 4, 9, 14, 13, 5, 18, 8, 0}, 0);
  check_close(slice_in_dim(random::permutation(key(), 3000), 0, 10, 0), {10},
              Numbers{1290, 512, 933, 1314, 273, 2719, 172, 2784, 2393, 2171}, 0);
  const Array x = reshape(arange(12), {3, 4});
  check_close(random::permutation(key(), x, 1), {3, 4}, Numbers{2, 3, 1, 0, 6, 7, 5, 4, 10, 11, 9, 8}, 0);
  check_close(random::permutation(key(), x, 0, true), {3, 4}, Numbers{4, 1, 2, 3, 8, 9, 10, 7, 0, 5, 6, 11}, 0);
}

TEST_CASE("choice is JAX's") {
  check_close(random::choice(key(), 50, {2, 4}), {2, 4}, Numbers{17, 27, 1, 12, 6, 2, 8, 2}, 0);
  check_close(random::choice(key(), 10, {6}, {.replace = false}), {6}, Numbers{2, 3, 1, 7, 6, 4}, 0);
  const Array x = reshape(arange(12), {3, 4});
  check_close(random::choice(key(), x, {2}, {.axis = 1}), {3, 2}, Numbers{1, 1, 5, 5, 9, 9}, 0);
  const Array p = array({0.1f, 0.2f, 0.3f, 0.15f, 0.25f});
  check_close(random::choice(key(), 5, {10}, {.p = p}), {10}, Numbers{1, 1, 3, 1, 4, 2, 1, 3, 3, 1}, 0);
  check_close(random::choice(key(), 5, {4}, {.replace = false, .p = p}), {4}, Numbers{1, 3, 0, 2}, 0);
}

TEST_CASE("bernoulli, rademacher and geometric are JAX's") {
  check_close(random::bernoulli(key(), 0.3, {16}), {16}, Numbers{0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 1}, 0);
  check_close(random::bernoulli(key(), array({0.1f, 0.5f, 0.9f}), {4, 3}), {4, 3},
              Numbers{0, 0, 1, 0, 1, 1, 0, 1, 1, 0, 0, 1}, 0);
  check_close(random::rademacher(key(), {10}), {10}, Numbers{-1, -1, 1, -1, 1, -1, -1, 1, 1, -1}, 0);
  check_close(random::geometric(key(), 0.2, {10}), {10}, Numbers{1, 1, 5, 1, 9, 3, 2, 5, 5, 2}, 0);
}

TEST_CASE("categorical is JAX's") {
  const Array logits = log(reshape(array({0.1f, 0.2f, 0.7f, 0.5f, 0.25f, 0.25f}), {2, 3}));
  check_close(random::categorical(key(), logits), {2}, Numbers{1, 0}, 0);
  check_close(random::categorical(key(), logits, {.shape = Shape{5, 2}}), {5, 2}, Numbers{1, 0, 2, 0, 1, 2, 2, 0, 2, 0},
              0);
  check_close(random::categorical(key(), logits, {.axis = 0, .shape = Shape{4, 3}}), {4, 3},
              Numbers{1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0}, 0);
  check_close(random::categorical(key(), logits, {.shape = Shape{3, 2}, .replace = false}), {3, 2},
              Numbers{1, 0, 2, 2, 0, 1}, 0);
}

TEST_CASE("functions of uniforms are JAX's up to rounding") {
  const Shape five{5};
  check_close(random::normal(key(), five), five, Numbers{1.1031016, 0.86306226, -0.33868238, 1.0272458, -1.0735804},
              1e-6);
  check_close(random::gumbel(key(), five), five, Numbers{1.9309113, 1.5337018, -0.0012366275, 1.8014802, -0.67060381},
              1e-6);
  check_close(random::exponential(key(), five), five, Numbers{2.0025432, 1.639631, 0.45795566, 1.8828725, 0.15257484},
              1e-6);
  check_close(random::laplace(key(), five), five, Numbers{-1.3093963, -0.94648403, 0.30809021, -1.1897255, 1.2622703},
              1e-6);
  check_close(random::logistic(key(), five), five, Numbers{1.8575273, 1.4238955, -0.54328173, 1.717818, -1.8028429},
              1e-6);
  check_close(random::cauchy(key(), five), five, Numbers{2.2149122, 1.4319059, -0.44237867, 1.9302319, -2.0992792},
              2e-6);
  check_close(random::pareto(key(), 2.0, five), five, Numbers{2.7217407, 2.270081, 1.2573142, 2.5636609, 1.0792727},
              1e-6);
  check_close(random::rayleigh(key(), 2.0, five), five, Numbers{1.0770923, 1.3137293, 2.8301766, 1.1491019, 3.9551664},
              1e-6);
  check_close(random::weibull_min(key(), 2.0, 1.5, five), five,
              Numbers{3.1774929, 2.780956, 1.1882622, 3.0496075, 0.57106465}, 1e-6);
  check_close(random::truncated_normal(key(), -1.0, 2.0, five), five,
              Numbers{1.1111424, 0.90928519, -0.10187752, 1.0480781, -0.59928697}, 1e-6);
  check_close(random::lognormal(key(), 0.5, five), five,
              Numbers{1.7359431, 1.539613, 0.84422082, 1.6713352, 0.58462179}, 1e-6);
  check_close(random::triangular(key(), -1.0, 0.5, 2.0, five), five,
              Numbers{1.2206016, 1.0655310, 0.28585005, 1.1725426, -0.20201874}, 1e-6);
}

TEST_CASE("functions of several draws are JAX's up to rounding") {
  const Shape five{5};
  check_close(random::maxwell(key(), five), five, Numbers{1.4409772, 1.5219381, 0.89594316, 1.6650019, 2.1777318},
              1e-6);
  check_close(random::double_sided_maxwell(key(), 1.0, 2.0, five), five,
              Numbers{-1.1560216, 5.790657, 5.0233006, 2.5958695, 3.7165584}, 1e-6);
  check_close(random::wald(key(), 1.5, five), five, Numbers{4.5459433, 0.98466909, 0.95972252, 0.20947695, 0.34106421},
              1e-5);
}

TEST_CASE("gamma and what is made of it are JAX's up to rounding") {
  const Shape five{5}, six{6};
  check_close(random::gamma(key(), 2.5, six), six,
              Numbers{3.3928807, 4.4548507, 1.2173306, 0.93647063, 1.2358246, 1.6748891}, 1e-6);
  check_close(random::gamma(key(), 2.5, {4}, float64), {4},
              Numbers{1.41882922934385, 1.9116021467664437, 2.7953937342643393, 0.9327286723142371}, 1e-13);
  check_close(random::gamma(key(), 0.3, six), six,
              Numbers{0.32618928, 0.019435169, 0.19210094, 0.073831186, 0.28978455, 0.41107076}, 1e-6);
  check_close(random::loggamma(key(), 0.01, six), six,
              Numbers{-51.683655, -147.11143, -22.678009, -38.376205, -11.067856, -14.696439}, 1e-6);
  check_close(random::gamma(key(), array({0.5f, 1.f, 30.f}), {2, 3}), {2, 3},
              Numbers{0.74752045, 2.2035916, 25.657007, 0.16806857, 0.22120366, 27.73237}, 1e-6);
  check_close(random::beta(key(), 2.0, 0.5, five), five,
              Numbers{0.96867305, 0.99853706, 0.77074564, 0.89065182, 0.98885507}, 1e-6);
  check_close(random::dirichlet(key(), array({0.5f, 1.f, 3.f}), {2}), {2, 3},
              Numbers{0.16446169, 0.48481134, 0.35072702, 0.067071743, 0.088276573, 0.84465164}, 1e-6);
  check_close(random::chisquare(key(), 3.0, five), five, Numbers{4.234333, 6.001327, 1.0313081, 0.69424111, 1.0544932},
              2e-6);
  check_close(random::f(key(), 3.0, 7.0, five), five,
              Numbers{0.31545982, 0.0066996273, 0.41628611, 1.1507949, 0.30032027}, 2e-6);
  check_close(random::t(key(), 4.0, five), five, Numbers{-1.4388472, 2.0528471, 0.51487339, -2.7974129, -2.2738421},
              2e-6);
  check_close(random::generalized_normal(key(), 1.5, five), five,
              Numbers{-0.92987162, 1.0222561, 0.87681025, 0.25173596, 0.42021471}, 2e-6);
  check_close(random::ball(key(), 3, 2, {2}), {2, 3},
              Numbers{0.16213508, -0.19942269, -0.63205665, 0.45369157, 0.85719985, -0.069784790}, 2e-6);
}

TEST_CASE("vectors and matrices are JAX's up to rounding") {
  const Array covariance = array({{2.f, .5f}, {.5f, 1.f}});
  check_close(random::multivariate_normal(key(), array({1.f, -1.f}), covariance, {3}), {3, 2},
              Numbers{2.5600214, 0.19732618, 0.52103078, -0.15884185, -0.51827192, -1.0714676}, 1e-6);
  check_close(random::orthogonal(key(), 3), {3, 3},
              Numbers{0.65377116, 0.72546881, 0.21512437, 0.60881394, -0.67313194, 0.41980848, 0.44936496, -0.1434879,
                      -0.88174963},
              2e-6);
}

TEST_CASE("gamma's derivative is JAX's") {
  const Array total = grad([](const Array& a) { return sum(random::gamma(key(), a, {6})); })(array(2.5f));
  check_close(total, {}, {5.6046495}, 1e-5);
  const std::vector<float> as = {.1f, .7f, 1.f, 4.f, 50.f, 200.f};
  const Array each = vmap(grad([](const Array& a) { return random::gamma(key(), a, {}); }))(array(as));
  check_close(each, {6}, {0.37743899, 1.5775516, 1.4006087, 1.1860077, 1.0505531, 1.025199}, 1e-5);
}
