#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/replicas.h"

// An aggregation a dtype cannot have must be refused where the variable is declared, mesh or no mesh: in Keras an int
// variable with `mean` passes until a strategy is active.

using namespace lockstep;
using tests::replica_counts;

namespace {

const std::vector<DType> integers = {int8, int16, int32, int64, uint8, uint16, uint32, uint64};
const std::vector<DType> floats = {float16, bfloat16, float32, float64, complex64, complex128};
const std::vector<Aggregation> aggregations = {Aggregation::none, Aggregation::mean, Aggregation::sum,
                                               Aggregation::only_first_replica};

Model<Array, Array> declaring(DType dtype, Aggregation aggregation) {
  return Model([=](Scope& scope, const Array& x) {
    scope["layer"].non_trainable("state", {.shape = {2}, .dtype = dtype, .aggregation = aggregation});
    return x;
  });
}

bool legal(DType dtype, Aggregation aggregation) {
  if (aggregation == Aggregation::none || aggregation == Aggregation::only_first_replica) return true;
  if (dtype == DType::bool_ || dtype == DType::key) return false;
  return aggregation == Aggregation::sum || !is_integer(dtype);
}

}  // namespace

TEST_CASE("each dtype and aggregation is accepted or refused at declaration, without any mesh") {
  std::vector<DType> dtypes = floats;
  dtypes.insert(dtypes.end(), integers.begin(), integers.end());
  dtypes.push_back(DType::bool_);
  dtypes.push_back(DType::key);
  for (const DType dtype : dtypes) {
    for (const Aggregation aggregation : aggregations) {
      CAPTURE(name(dtype));
      CAPTURE(name(aggregation));
      if (legal(dtype, aggregation)) {
        CHECK_NOTHROW(check_aggregation("layer/state", dtype, aggregation));
        continue;
      }
      tests::expect_error<AggregationError>(
          [&] { static_cast<void>(check_aggregation("layer/state", dtype, aggregation)); }, "layer/state");
      tests::expect_error<AggregationError>(
          [&] { static_cast<void>(check_aggregation("layer/state", dtype, aggregation)); }, std::string(name(dtype)));
      tests::expect_error<AggregationError>(
          [&] { static_cast<void>(check_aggregation("layer/state", dtype, aggregation)); },
          std::string(name(aggregation)));
      tests::expect_error<AggregationError>(
          [&] { static_cast<void>(check_aggregation("layer/state", dtype, aggregation)); }, "only_first_replica");
    }
  }
}

TEST_CASE("init of a model that declares what its dtype forbids is refused, with and without a mesh") {
  const Array x = zeros({4, 2});
  for (const DType dtype : {int32, int64, uint32, uint8, DType::bool_}) {
    const auto model = declaring(dtype, Aggregation::mean);
    tests::expect_error<AggregationError>([&] { static_cast<void>(model.init(random::key(0), x)); }, "layer/state");
    for (const auto& replicas : replica_counts) {
      tests::expect_error<AggregationError>(
          [&] { static_cast<void>(tests::call_on(replicas, model, Tree(), Tree(), tests::batch_of(x), true)); },
          "layer/state");
    }
  }
}

TEST_CASE("legal declarations initialise and run on every number of replicas") {
  const Array x = zeros({4, 2});
  for (const Aggregation aggregation : aggregations) {
    for (const DType dtype : {float16, bfloat16, float32, float64, int32, int64, uint8}) {
      if (!legal(dtype, aggregation)) continue;
      const auto model = declaring(dtype, aggregation);
      auto [trainable, state] = model.init(random::key(0), x);
      for (const auto& replicas : replica_counts) {
        auto [y, next] = tests::call_on(replicas, model, trainable, state, tests::batch_of(x), true);
        CHECK(next.at("layer/state").array().dtype() == dtype);
      }
    }
  }
}

TEST_CASE("without a word the aggregation is none, and what is declared stays declared") {
  const Model model([](Scope& scope, const Array& x) {
    scope.non_trainable("plain", {.shape = {}});
    scope.non_trainable("counter", {.shape = {}, .dtype = int32, .aggregation = Aggregation::sum});
    scope.trainable("weight", {.shape = {}, .aggregation = Aggregation::mean});
    return x;
  });
  const std::vector<Variable> variables = model.variables(zeros({2}));
  REQUIRE(variables.size() == 3);
  CHECK(variables[0].path == "counter");
  CHECK(variables[0].aggregation == Aggregation::sum);
  CHECK(variables[1].path == "plain");
  CHECK(variables[1].aggregation == Aggregation::none);
  CHECK(variables[2].path == "weight");
  CHECK(variables[2].aggregation == Aggregation::mean);
  CHECK(variables[2].trainable);
}

TEST_CASE("an aggregation of another name is refused with the list") {
  tests::expect_error<AggregationError>([&] { static_cast<void>(parse_aggregation("average")); }, "average");
  for (const Aggregation aggregation : aggregations) {
    CHECK(parse_aggregation(name(aggregation)) == aggregation);
    tests::expect_error<AggregationError>([&] { static_cast<void>(parse_aggregation("average")); },
                                          std::string(name(aggregation)));
  }
}
