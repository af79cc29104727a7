#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

using namespace lockstep;

namespace {

Model<Array, Array> convolution_net() {
  return Model([](Scope& scope, const Array& x) {
    const Array c = conv2d(scope["conv"], x, {.filters = 16, .use_bias = false});
    Array h = relu(batch_norm(scope["norm"], c, {.per_microbatch = true}));
    h = relu(conv2d(scope["second"], h, {.filters = 16, .strides = {2, 2}}));
    return dense(scope["head"], mean(h, Axes{1, 2}), {.units = 4});
  });
}

/// Images of four kinds: waves of other directions and lengths, with noise.
Batch images(std::uint64_t seed) {
  constexpr std::int64_t rows = 32, side = 12;
  const Array key = random::key(seed);
  const Array kind = random::randint(random::fold_in(key, 0), {rows}, 0, 4);
  const auto along = [&](int dim) {
    std::vector<std::int64_t> shape(3, 1);
    shape[static_cast<std::size_t>(dim)] = side;
    return reshape(convert(arange(side), float32), shape);
  };
  const Array of = reshape(convert(kind, float32), {rows, 1, 1});
  const Array phase = random::uniform(random::fold_in(key, 1), {rows, 1, 1}) * 6.0F;
  const Array wave = sin(along(1) * (0.3F + 0.4F * of) + along(2) * (1.5F - 0.4F * of) + phase);
  const Array noise = random::normal(random::fold_in(key, 2), {rows, side, side}) * 0.5F;
  return {reshape(wave + noise, {rows, side, side, 1}), kind, ones({rows})};
}

tests::Trained train_in(Precision precision, int devices, int steps, std::int64_t microbatches = 1) {
  const auto model = convolution_net();
  DataParallelOptions options = tests::parallel({8, devices});
  options.precision = precision;
  options.microbatches = microbatches;
  const TrainStep step = data_parallel(model, tests::loss_of(model), optim::adamw(3e-3), options);
  return tests::train(step, tests::fresh_state(step, model, images(0)), steps,
                      [](int i) { return images(static_cast<std::uint64_t>(i)); });
}

double last_losses(const tests::Trained& run) {
  double sum = 0;
  for (std::size_t i = run.losses.size() - 10; i < run.losses.size(); ++i) sum += run.losses[i] / 10;
  return sum;
}

}  // namespace

TEST_CASE("in bfloat16 a model trains to the loss that it has in float32") {
  const tests::Trained wide = train_in(Precision::float32, 2, 80);
  const tests::Trained narrow = train_in(Precision::bfloat16, 2, 80);
  CHECK(last_losses(wide) < 0.5 * wide.losses[0]);
  CHECK(std::abs(last_losses(narrow) - last_losses(wide)) < 0.02 * last_losses(wide));
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(std::abs(narrow.losses[i] - wide.losses[i]) < 0.02 * wide.losses[i]);
  }
  CHECK(narrow.losses != wide.losses);
  for (const Array& leaf : narrow.state.trainable.leaves()) CHECK(leaf.dtype() == float32);
}

TEST_CASE("in bfloat16 the bits are the same on 1, 2, 4 and 8 devices") {
  for (const std::int64_t microbatches : {1, 2}) {
    const std::string expected = fingerprint(to_tree(train_in(Precision::bfloat16, 1, 6, microbatches).state));
    for (const int devices : {2, 4, 8}) {
      CAPTURE(devices);
      CHECK(fingerprint(to_tree(train_in(Precision::bfloat16, devices, 6, microbatches).state)) == expected);
    }
  }
}

TEST_CASE("jit multiplies in the precision that it is asked for") {
  const Array x = array<float>({1.00390625F, 1.0F}), y = array<float>({1.0F, 0.00390625F});
  const auto product = [](const Array& a, const Array& b) { return linalg::dot(a, b); };
  CHECK(jit(product)(x, y).item<float>() == 1.0078125F);
  // 1 + 2^-8 becomes 1, and the sum 1 + 2^-8 in float32 is rounded to it as well.
  CHECK(jit(product, {.precision = Precision::bfloat16})(x, y).item<float>() == 1.0F);
  const Array wide = convert(x, float64);
  CHECK(jit(product, {.precision = Precision::bfloat16})(wide, convert(y, float64)).item<double>() == 1.0078125);
  CHECK(jit(product)(x, y).item<float>() == 1.0078125F);
}

TEST_CASE("names of precisions") {
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    CHECK(parse_precision(name(precision)) == precision);
  }
  tests::expect_error<ValueError>([&] { static_cast<void>(parse_precision("fp8")); },
                                  "precision: got \"fp8\", expected float32 or bfloat16");
}
