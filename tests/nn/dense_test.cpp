#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/layer_run.h"

using namespace lockstep;
using tests::Doubles;
using tests::run_layer;

namespace {

auto dense_with(const DenseOptions& options) {
  return [options](Scope& scope, const Array& x) { return dense(scope, x, options); };
}

auto embedding_with(const EmbeddingOptions& options) {
  return [options](Scope& scope, const Array& x) { return embedding(scope, x, options); };
}

}  // namespace

TEST_CASE("dense: x kernel + bias over the last dimension") {
  const Array kernel = array(Doubles{1, 2, 3, 4, 5, 6}, {3, 2});
  const Array bias = array(Doubles{10, 20});
  const Array x = array(Doubles{1, 0, -1, 2, 1, 0}, {2, 3});
  const auto result = run_layer(dense_with({.units = 2}), x, {.trainable = {{"kernel", kernel}, {"bias", bias}}});
  CHECK(result.y.to_vector<double>() == Doubles{6, 16, 15, 28});
  CHECK(result.after.size() == 0);

  const auto cube =
      run_layer(dense_with({.units = 2}), reshape(x, {2, 1, 3}), {.trainable = {{"kernel", kernel}, {"bias", bias}}});
  CHECK(cube.y.shape() == Shape{2, 1, 2});
  CHECK(cube.y.to_vector<double>() == Doubles{6, 16, 15, 28});

  const auto bare = run_layer(dense_with({.units = 2, .use_bias = false}), x, {.trainable = {{"kernel", kernel}}});
  CHECK(bare.trainable.paths() == std::vector<std::string>{"kernel"});
  CHECK(bare.y.to_vector<double>() == Doubles{-4, -4, 5, 8});
}

TEST_CASE("dense: variables take the input's dtype, the options' initializers and aggregation") {
  const Model model([](Scope& scope, const Array& x) {
    return dense(scope, x,
                 {.units = 2, .bias_initializer = initializers::constant(4), .aggregation = Aggregation::mean});
  });
  for (const DType dtype : {float32, float64, bfloat16}) {
    for (const Variable& v : model.variables(zeros({1, 3}, dtype))) {
      CHECK(v.type.dtype == dtype);
      CHECK(v.aggregation == Aggregation::mean);
    }
  }
  const auto [trainable, state] = model.init(random::key(0), zeros({1, 3}));
  CHECK(trainable.at("bias").array().to_vector<float>() == std::vector<float>{4, 4});
}

TEST_CASE("dense refuses what it cannot multiply") {
  tests::expect_error<ValueError>(
      [&] {
        static_cast<void>(run_layer(dense_with({.units = 0}), zeros({1, 3})));
      },
      "units is 0; it must be at least 1");
  tests::expect_error<ShapeError>([&] { static_cast<void>(run_layer(dense_with({.units = 1}), zeros({}))); },
                                  "give floats of shape [..., in]");
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(run_layer(dense_with({.units = 1}), zeros({1, 3}, int32)));
      },
      "the input is i32[1,3]");
}

TEST_CASE("embedding: rows by index, gradients added where indices repeat") {
  const Array table = array(std::vector<float>{0, 1, 10, 11, 20, 21}, {3, 2});
  const Array indices = array(std::vector<std::int32_t>{2, 0, 2, 2}, {2, 2});
  const EmbeddingOptions options{.vocabulary = 3, .features = 2};
  const auto result = run_layer(embedding_with(options), indices, {.trainable = {{"embeddings", table}}});
  CHECK(result.y.shape() == Shape{2, 2, 2});
  CHECK(result.y.to_vector<float>() == std::vector<float>{20, 21, 0, 1, 20, 21, 20, 21});

  const Model model([&](Scope& scope, const Array& x) { return embedding(scope, x, options); });
  const Array weights = array(std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2});
  const auto loss = [&](const Tree& w) { return sum(model.stateless_call(w, Tree(), indices, true).first * weights); };
  const Tree gradient = grad(loss)(Tree::dict({{"embeddings", Tree(table)}}));
  CHECK(gradient.at("embeddings").array().to_vector<float>() == std::vector<float>{3, 4, 0, 0, 1 + 5 + 7, 2 + 6 + 8});
}

TEST_CASE("embedding refuses float indices and empty tables") {
  tests::expect_error<DtypeError>(
      [&] { static_cast<void>(run_layer(embedding_with({.vocabulary = 3, .features = 2}), zeros({2}))); },
      "give integers");
  const Array indices = zeros({2}, int32);
  tests::expect_error<ValueError>(
      [&] { static_cast<void>(run_layer(embedding_with({.vocabulary = 0, .features = 2}), indices)); },
      "vocabulary is 0");
  tests::expect_error<ValueError>(
      [&] { static_cast<void>(run_layer(embedding_with({.vocabulary = 3, .features = -1}), indices)); },
      "features is -1");
}

TEST_CASE("sequential runs layers in scopes 0, 1, ...") {
  const auto net = [](Scope& scope, const Array& x) {
    return sequential(scope["net"], x,
                      {[](const Scope& s, const Array& h) { return dense(s, h, {.units = 3}); },
                       [](const Scope&, const Array& h) { return relu(h); },
                       [](const Scope& s, const Array& h) { return dense(s, h, {.units = 1, .use_bias = false}); }});
  };
  const Array x = array(Doubles{1, -2}, {1, 2});
  const Array first = array(Doubles{1, 0, 2, 0, 1, 1}, {2, 3});
  const auto result = run_layer(net, x,
                                {.trainable = {{"net/0/kernel", first},
                                               {"net/0/bias", array(Doubles{0, 0, 3})},
                                               {"net/2/kernel", array(Doubles{1, 10, 100}, {3, 1})}}});
  CHECK(result.trainable.paths() == std::vector<std::string>{"net/0/bias", "net/0/kernel", "net/2/kernel"});
  // (1, -2) K + b = (1, -2, 3), of which relu leaves (1, 0, 3).
  CHECK(result.y.to_vector<double>() == Doubles{301});
  CHECK(run_layer([](Scope& s, const Array& h) { return sequential(s, h, {}); }, x).y.to_vector<double>() ==
        Doubles{1, -2});
}

TEST_CASE("flatten keeps rows and merges the rest") {
  CHECK(flatten(zeros({5, 2, 3, 4})).shape() == Shape{5, 24});
  CHECK(flatten(zeros({5, 3})).shape() == Shape{5, 3});
  CHECK(flatten(zeros({5})).shape() == Shape{5, 1});
  CHECK(flatten(zeros({0, 3, 2})).shape() == Shape{0, 6});
  CHECK(flatten(array(Doubles{1, 2, 3, 4}, {1, 2, 2})).to_vector<double>() == Doubles{1, 2, 3, 4});
}
