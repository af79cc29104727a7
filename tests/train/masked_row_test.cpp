#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/non_finite.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// What stands in rows of weight 0 reaches nothing. The right values are those of the same batch with finite numbers in
// these rows (a change of what does not count), and those of the batch without them.

using namespace lockstep;
using tests::float_infinity;
using tests::float_not_a_number;

namespace {

/// Six real rows, then masked ones that hold `filling`; at 4 and 8 shards some have no real row.
Batch batch_with(float filling, std::int64_t masked) {
  Batch batch = tests::regression_batch(6, 3, float32);
  batch.x = concatenate({abs(batch.x) + 0.5, full({masked, 3}, filling, float32)}, 0);
  batch.y = concatenate({abs(batch.y), full({masked, 1}, filling, float32)}, 0);
  batch.weight = concatenate({ones({6}), zeros({masked})}, 0);
  return batch;
}

using Terms = std::function<Loss(const Array& y, const Batch& b)>;

struct LossCase {
  std::string name;
  Terms loss;
};

Array positive(const Array& y) { return exp(y * 0.1); }

const std::vector<LossCase>& losses() {
  static const std::vector<LossCase> cases = {
      {"squared", [](const Array& y, const Batch& b) { return mean_squared_error(y, b.y, b.weight); }},
      {"absolute", [](const Array& y, const Batch& b) { return mean_absolute_error(y, b.y, b.weight); }},
      {"huber", [](const Array& y, const Batch& b) { return huber(y, b.y, b.weight); }},
      {"binary", [](const Array& y, const Batch& b) { return binary_cross_entropy(y, b.y, b.weight); }},
      {"dense classes",
       [](const Array& y, const Batch& b) {
         return softmax_cross_entropy(concatenate({y, -y}, 1), concatenate({b.y, b.y}, 1), b.weight);
       }},
      {"percentage", [](const Array& y, const Batch& b) { return mean_absolute_percentage_error(y, b.y, b.weight); }},
      {"poisson", [](const Array& y, const Batch& b) { return poisson(positive(y), b.y, b.weight); }},
      {"focal", [](const Array& y, const Batch& b) { return sigmoid_focal(y, b.y, b.weight, {.alpha = 0.3}); }},
      {"cosine",
       [](const Array& y, const Batch& b) {
         return cosine_distance(concatenate({y, -y}, 1), concatenate({b.y, slice_in_dim(b.x, 0, 1, 1)}, 1), b.weight);
       }},
      {"logarithm of the input", [](const Array& y, const Batch& b) { return weighted(y * log(b.x), b.weight); }},
      {"quotient", [](const Array& y, const Batch& b) { return weighted(positive(y) / b.y, b.weight); }},
      {"root", [](const Array& y, const Batch& b) { return weighted(sqrt(positive(y) * b.x), b.weight); }},
  };
  return cases;
}

Model<Array, Array> log_net() {
  return Model([](Scope& scope, const Array& x) {
    const Array h = batch_norm(scope["norm"], dense(scope["first"], log(x), {.units = 4}));
    return dense(scope["head"], dropout(scope["drop"], h, 0.25), {.units = 1});
  });
}

LossFunction function_of(const Model<Array, Array>& model, const Terms& terms, bool training = true) {
  return [model, terms, training](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, training, {.rows = b.weight});
    return WithAux{terms(y, b), next, {{"size", weighted(abs(y) * b.y, b.weight)}}};
  };
}

bool all_finite(const Tree& tree) {
  for (const Array& leaf : tree.leaves()) {
    for (const double v : convert(leaf, float64).to_vector<double>()) {
      if (!std::isfinite(v)) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a step has the same bits whatever stands in rows of weight 0") {
  const auto model = log_net();
  for (const LossCase& c : losses()) {
    CAPTURE(c.name);
    for (const tests::Replicas replicas : {tests::Replicas{1, 1}, {4, 2}, {8, 2}}) {
      CAPTURE(replicas.shards);
      const TrainStep step =
          data_parallel(model, function_of(model, c.loss), optim::sgd(0.1), tests::parallel(replicas));
      std::string expected;
      for (const float filling : {1.0F, 0.0F, float_not_a_number, float_infinity, -float_infinity}) {
        CAPTURE(filling);
        const Batch batch = batch_with(filling, 10);
        auto [after, logs] = step(tests::fresh_state(step, model, batch), batch);
        CHECK(all_finite(to_tree(after)));
        CHECK(std::isfinite(logs.at("size").item<double>()));
        CHECK(std::isfinite(logs.at("grad_norm").item<double>()));
        const std::string bits = fingerprint(to_tree(after));
        if (expected.empty()) expected = bits;
        CHECK(bits == expected);
      }
    }
  }
}

TEST_CASE("an evaluation's sums do not see rows of weight 0") {
  const auto model = log_net();
  for (const LossCase& c : losses()) {
    CAPTURE(c.name);
    const Batch real = batch_with(1, 2);
    const auto [trainable, state] = model.init(random::key(1), real.x);
    const EvaluateStep evaluate(function_of(model, c.loss, false), tests::parallel({8, 2}));
    const auto expected = evaluate(trainable, state, real);
    const auto sums = evaluate(trainable, state, batch_with(float_not_a_number, 2));
    for (const auto& [name, sum] : expected) {
      CAPTURE(name);
      CHECK(sums.at(name).sum.item<float>() == sum.sum.item<float>());
      CHECK(sums.at(name).weight.item<float>() == sum.weight.item<float>());
    }
  }
}

TEST_CASE("a batch without a row that counts moves no parameter") {
  const auto model = log_net();
  for (const LossCase& c : losses()) {
    CAPTURE(c.name);
    const TrainStep step = data_parallel(model, function_of(model, c.loss), optim::sgd(0.1), tests::parallel({2, 2}));
    Batch batch = batch_with(float_not_a_number, 2);
    batch.x = full({8, 3}, float_not_a_number, float32);
    batch.y = full({8, 1}, float_not_a_number, float32);
    batch.weight = zeros({8});
    const TrainState before = tests::fresh_state(step, model, batch);
    auto [after, logs] = step(before, batch);
    CHECK(fingerprint(after.trainable) == fingerprint(before.trainable));
    CHECK(logs.at("loss").item<float>() == 0);
  }
}

TEST_CASE("integer inputs and labels out of range do no harm in rows of weight 0") {
  const Model model([](Scope& scope, const Array& x) {
    return dense(scope["head"], embedding(scope["words"], x, {.vocabulary = 5, .features = 4}), {.units = 3});
  });
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(y, b.y, b.weight), next, {{"accuracy", accuracy(y, b.y, b.weight)}}};
  };
  const TrainStep step = data_parallel(model, loss, optim::sgd(0.1), tests::parallel({4, 2}));
  std::string expected;
  for (const int filling : {0, -1, 100, std::numeric_limits<int>::min()}) {
    CAPTURE(filling);
    const Batch batch{array({4, 3, filling, filling}), array({2, 1, filling, filling}),
                      array({1.0F, 1.0F, 0.0F, 0.0F})};
    auto [after, logs] = step(tests::fresh_state(step, model, batch), batch);
    const std::string bits = fingerprint(to_tree(after));
    if (expected.empty()) expected = bits;
    CHECK(bits == expected);
  }
}

TEST_CASE("fill_masked_rows: any tree of leaves, any dtype, the first real row's values") {
  const Tree rows =
      Tree::dict({{"images", Tree(array(std::vector<float>{float_not_a_number, 1, 2, float_infinity}, {4, 1, 1}))},
                  {"flags", Tree(array(std::vector<float>{0, 1, 0, 0}) != 0)},
                  {"labels", Tree(array({-7, 1, 2, 99}))},
                  {"keys", Tree(random::split(random::key(1), 4))}});
  const Tree filled = fill_masked_rows(rows, array({0.0F, 2.0F, -1.0F, 0.0F}));
  CHECK(filled.at("images").array().to_vector<float>() == std::vector<float>{1, 1, 2, 1});
  CHECK(convert(filled.at("flags").array(), int32).to_vector<int>() == std::vector<int>{1, 1, 0, 1});
  CHECK(filled.at("labels").array().to_vector<int>() == std::vector<int>{1, 1, 2, 1});
  const auto words = random::key_data(filled.at("keys").array()).to_vector<std::uint32_t>();
  const auto given = random::key_data(rows.at("keys").array()).to_vector<std::uint32_t>();
  CHECK(words ==
        std::vector<std::uint32_t>{given[2], given[3], given[2], given[3], given[4], given[5], given[2], given[3]});
  const Tree none = fill_masked_rows(rows, zeros({4}));
  CHECK(none.at("images").array().to_vector<float>() == std::vector<float>(4, 0.5F));
  CHECK(none.at("labels").array().to_vector<int>() == std::vector<int>(4, 0));
  tests::expect_error<DataError>(
      [&] { static_cast<void>(fill_masked_rows(rows.with("labels", Tree(zeros({3}))), ones({4}))); },
      "leaf 'labels' is f32[3], there are 4 weights");
  tests::expect_error<DataError>(
      [&] {
        static_cast<void>(fill_masked_rows(rows, ones({4, 1})));
      },
      "the weights are f32[4,1]");
}

TEST_CASE("without a map, a model's call and its derivative do not see rows of weight 0") {
  const auto model = log_net();
  const Batch finite = batch_with(1, 2);
  const auto [trainable, state] = model.init(random::key(1), finite.x);
  const auto gradient = [&](const Batch& b) {
    const auto loss = [&](const Tree& w) {
      const auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
      return value(mean_squared_error(y, b.y, b.weight));
    };
    return grad(loss)(trainable);
  };
  CHECK(fingerprint(gradient(batch_with(float_not_a_number, 2))) == fingerprint(gradient(finite)));
}
