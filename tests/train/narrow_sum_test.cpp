#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"
#include "tests/support/training.h"

// Over shards, narrow dtypes are added in a wide one and rounded once; right values are exact sums and means.

using namespace lockstep;

TEST_CASE("pmean of a narrow float is finite wherever the mean is") {
  for (const DType dtype : {float16, bfloat16}) {
    CAPTURE(name(dtype));
    for (const tests::Replicas replicas : {tests::Replicas{2, 1}, {8, 1}, {8, 2}}) {
      const auto mean_of = pmap([](const Array& x) { return pmean(squeeze(x, {0}), {"batch"}); },
                                {.mesh = tests::mesh_of(replicas), .in = {sharded("batch")}, .out = {replicated}});
      const Array mean = mean_of(full({replicas.shards}, 49152.0, dtype));
      CHECK(mean.dtype() == dtype);
      CHECK(convert(mean, float32).item<float>() == 49152);
    }
  }
}

TEST_CASE("pmean of integers and bool is their mean in float32") {
  const auto mean_of = pmap([](const Array& x) { return pmean(squeeze(x, {0}), {"batch"}); },
                            {.mesh = tests::mesh_of({4, 2}), .in = {sharded("batch")}, .out = {replicated}});
  CHECK(mean_of(full({4}, 127, int8)).item<float>() == 127);
  CHECK(mean_of(arange(4) > 0).item<float>() == 0.75F);
}

TEST_CASE("gradients of 20000 in float16 combine to their mean on 8 shards") {
  const Model model([](Scope& scope, const Array& x) {
    return x * scope.trainable("w", {.shape = {1}, .dtype = float16, .aggregation = Aggregation::mean});
  });
  const LossFunction loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{weighted(y, b.weight), next, {}};
  };
  const Batch batch{full({8, 1}, 20000.0, float16), zeros({8}), {}};
  for (const tests::Replicas replicas : {tests::Replicas{1, 1}, {8, 1}, {8, 2}}) {
    const TrainStep step = data_parallel(model, loss, optim::sgd(1.0), tests::parallel(replicas));
    const auto after = step(tests::fresh_state(step, model, batch), batch).first;
    CHECK(convert(after.trainable.at("w").array(), float32).item<float>() == -20000);
  }
}

TEST_CASE(
    "a narrow parameter that is widened: shards' gradients are added before they are rounded, in branches and loops") {
  using Term = std::function<Array(const Array& w, const Array& x)>;
  const Term term = [](const Array& w, const Array& x) { return sum(convert(w, float32) * x); };
  const std::vector<std::pair<std::string, Term>> forms = {
      {"plain", term},
      {"remat", [&](const Array& w, const Array& x) { return remat([&](const Array& v) { return term(w, v); })(x); }},
      {"cond",
       [&](const Array& w, const Array& x) {
         return cond(
             Operand(full({}, true, bool_)), [&](const Array& v) { return term(w, v); },
             [](const Array& v) { return sum(v); }, x);
       }},
      {"scan",
       [&](const Array& w, const Array& x) {
         const auto body = [&](const Array& total) { return std::pair(total + term(w, x), Tree()); };
         return scan(body, zeros({}), {.length = 1}).first;
       }},
      {"scan over layers",
       [&](const Array& w, const Array& x) {
         const auto body = [&](const Array& total, const Array& each) {
           return std::pair(total + term(each, x), Tree());
         };
         return scan(body, zeros({}), expand_dims(w, 0)).first;
       }},
  };
  // Of four shards' sums, 3 (large + 1) + 1; large + 1 alone would be rounded to large.
  for (const auto& [dtype, large, expected] : {std::tuple(float16, 2048.F, 6148.F), {bfloat16, 256.F, 772.F}}) {
    const Array x = array({large, 1.F, large, 1.F, large, 1.F, 1.F, 0.F});
    for (const auto& [form, function] : forms) {
      CAPTURE(name(dtype));
      CAPTURE(form);
      const auto gradient = [f = function](const Array& w, const Array& rows) {
        return grad([&](const Array& v) { return psum(f(v, rows), {"batch"}); })(w);
      };
      const auto of_shards =
          pmap(gradient, {.mesh = tests::mesh_of({4, 2}), .in = {replicated, sharded("batch")}, .out = {replicated}});
      CHECK(convert(of_shards(ones({}, dtype), x), float32).item<float>() == expected);
    }
  }
}

TEST_CASE("a mean state in float16 is finite wherever the mean is") {
  const Model model([](Scope& scope, const Array& x) {
    scope.non_trainable("level", {.shape = {}, .dtype = float16, .aggregation = Aggregation::mean});
    scope.assign("level", max(x));
    return x;
  });
  const Array x = full({8, 1}, 49152.0, float16);
  const auto [trainable, state] = model.init(random::key(0), x);
  const Batch batch = tests::batch_of(x);
  const auto next = tests::call_on({8, 2}, model, trainable, state, batch, true).second;
  CHECK(convert(next.at("level").array(), float32).item<float>() == 49152);
}

namespace {

Model<Array, Array> counting_in(DType dtype) {
  return Model([dtype](Scope& scope, const Array& x) {
    scope.non_trainable("count", {.shape = {}, .dtype = dtype, .aggregation = Aggregation::sum});
    scope.accumulate("count", convert(max(x), dtype));
    scope.accumulate("count", convert(max(x), dtype));
    return x;
  });
}

Array counted_rows(DType dtype, double each, const tests::Replicas& replicas) {
  const auto model = counting_in(dtype);
  const Array x = full({8, 1}, each, float64);
  const auto [trainable, state] = model.init(random::key(0), x);
  return tests::call_on(replicas, model, trainable, state, tests::batch_of(x), true).second.at("count").array();
}

}  // namespace

TEST_CASE("an integer sum that its dtype cannot hold is an error, and one that it can is exact") {
  for (const tests::Replicas replicas : {tests::Replicas{1, 1}, {8, 1}, {8, 2}}) {
    CAPTURE(replicas.shards);
    const double shards = static_cast<double>(replicas.shards);
    struct Range {
      DType dtype;
      double most;
    };
    for (const Range& range : {Range{int8, 127}, {uint8, 255}, {int16, 32767}, {int32, 2147483647.0}}) {
      CAPTURE(name(range.dtype));
      const double each = std::floor(range.most / (2 * shards));
      const Array held = counted_rows(range.dtype, each, replicas);
      CHECK(held.dtype() == range.dtype);
      CHECK(convert(held, float64).item<double>() == 2 * shards * each);
      tests::expect_error<CheckError>([&] { static_cast<void>(counted_rows(range.dtype, each + 1, replicas)); },
                                      "the sum 'count' is beyond what " + std::string(name(range.dtype)) + " holds");
    }
    tests::expect_error<CheckError>([&] { static_cast<void>(counted_rows(int8, -65, replicas)); },
                                    "declare the variable with a wider dtype");
  }
}

TEST_CASE("a narrow float sum is rounded once") {
  // 2048 + 8 * 2 * 0.5 = 2056 in float16; adding 0.5 at a time, or in two roundings, would stay below.
  const Model model([](Scope& scope, const Array& x) {
    scope.non_trainable(
        "total",
        {.shape = {}, .dtype = float16, .initializer = initializers::constant(2048), .aggregation = Aggregation::sum});
    scope.accumulate("total", max(x));
    scope.accumulate("total", max(x));
    return x;
  });
  const Array x = full({8, 1}, 0.5, float16);
  const auto [trainable, state] = model.init(random::key(0), x);
  const auto next = tests::call_on({8, 2}, model, trainable, state, tests::batch_of(x), true).second;
  CHECK(convert(next.at("total").array(), float32).item<float>() == 2056);
}

TEST_CASE("a loss over many rows of float16 is their mean") {
  const std::int64_t rows = 65536;
  const Array values = full({rows}, 3.0, float16);
  CHECK(value(weighted(values)).item<float>() == 3);
  CHECK(value(weighted(values, ones({rows}, float16))).item<float>() == 3);
  CHECK(value(mean_squared_error(values, zeros({rows}, float16))).item<float>() == 9);
}
