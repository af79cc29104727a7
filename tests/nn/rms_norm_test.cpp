#include <cmath>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/derivatives.h>
#include <lockstep/error.h>
#include <lockstep/layers.h>
#include <lockstep/model.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::check_close;
using tests::expect_error;

namespace {

Array rms_normalized(const Array& x, const RmsNormOptions& options = {}) {
  const Model model([&](Scope& scope, const Array& v) { return rms_norm(scope, v, options); });
  const auto [trainable, state] = model.init(random::key(0), x);
  return model.stateless_call(trainable, state, x, true).first;
}

}  // namespace

TEST_CASE("rms_norm divides by the root of the mean square") {
  // torch.nn.functional.rms_norm(x, (4,), eps=1e-6) in float64.
  const Array x = array(std::vector<double>{1, 2, 4, 9, -3, 0, 5, 6}, {2, 4});
  const double first = std::sqrt(102 / 4.0 + 1e-6), second = std::sqrt(70 / 4.0 + 1e-6);
  check_close(rms_normalized(x), {2, 4},
              {1 / first, 2 / first, 4 / first, 9 / first, -3 / second, 0, 5 / second, 6 / second}, 1e-14);
  CHECK(rms_normalized(zeros({3, 5})).to_vector<float>() == std::vector<float>(15, 0));
  CHECK(rms_normalized(ones({4}) * 2.0F, {.epsilon = 0, .scale = false}).to_vector<float>() ==
        std::vector<float>(4, 1));
}

TEST_CASE("rms_norm of numbers whose squares leave the range") {
  for (const DType dtype : {float32, float64, bfloat16, float16}) {
    CAPTURE(name(dtype));
    const double large = dtype == float64 ? 1e300 : dtype == float16 ? 6e4 : 3e38;
    const Array x = array({large, -large, 0.0, large / 2}).astype(dtype);
    const double root = 1.5 / 2;  // of (1 + 1 + 1/4) / 4
    const Array y = rms_normalized(x, {.epsilon = 1e-5}).astype(float64);
    check_close(y, {4}, {1 / root, -1 / root, 0, 0.5 / root},
                dtype == float64      ? 1e-14
                : size_of(dtype) == 2 ? 1e-2
                                      : 1e-6);
    const auto loss = [](const Array& v) {
      return sum(rms_normalized(v).astype(float32) * array({1.F, 2.F, 3.F, 4.F}));
    };
    CHECK(all(is_finite(grad(loss)(x))).item<bool>());
  }
}

TEST_CASE("rms_norm's derivatives, of x and gamma, of two orders") {
  const Model model([](Scope& scope, const Array& x) { return rms_norm(scope, x); });
  const Array x = array(std::vector<double>{1, -2, 0.5, 0.25, 3, -1}, {2, 3});
  const auto state = model.init(random::key(0), x).second;
  const auto loss = [&](const Array& v, const Array& gamma) {
    const Tree weights = Tree::dict({{"gamma", Tree(gamma)}});
    return sum(sin(model.stateless_call(weights, state, v, true).first));
  };
  check_grads(loss, std::tuple(x, array({1.0, 0.5, -2.0})), {.order = 2});
}

TEST_CASE("rms_norm refuses integers, numbers and negative epsilons") {
  expect_error<ShapeError>(
      [] {
        rms_normalized(ones({2, 3}, int32));
      },
      "[rms_norm ''] the input is i32[2,3]", "[..., C]");
  expect_error<ShapeError>([] { rms_normalized(ones({})); }, "[rms_norm ''] the input is f32[]");
  expect_error<ValueError>([] { rms_normalized(ones({2}), {.epsilon = -1}); }, "[rms_norm ''] epsilon is -1");
}
