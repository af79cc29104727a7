#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"
#include "tests/support/expect_error.h"

// Aggregations are checked against dtypes where a variable is declared, mesh or no mesh.
namespace lockstep::tests {
namespace {

Model<Array, Array> declaring(DType dtype, Aggregation aggregation, bool trainable = false) {
  return Model<Array, Array>([=](const Scope& scope, const Array& x) {
    const VariableSpec spec{.shape = {2}, .dtype = dtype, .aggregation = aggregation};
    if (trainable) {
      static_cast<void>(scope["layer"].trainable("variable", spec));
    } else {
      static_cast<void>(scope["layer"].non_trainable("variable", spec));
    }
    return x;
  });
}

Tree mean_of_what_has_none(const Replicas& replicas) {
  for (const DType dtype : {int32, int64, uint32, uint8, DType::bool_, DType::key}) {
    for (const bool trainable : {false, true}) {
      CAPTURE(name(dtype));
      const auto model = declaring(dtype, Aggregation::mean, trainable);
      const auto refused = [&](const auto& call) {
        expect_error<AggregationError>(call, "\"layer/variable\"", name(dtype), "mean", "none", "only_first_replica");
      };
      refused([&] { static_cast<void>(model.init(random::key(0), zeros({8}))); });
      refused([&] { static_cast<void>(call_on(replicas, model, Tree(), Tree(), batch_of(zeros({8})), true)); });
    }
  }
  return {};
}

Tree legal_declarations(const Replicas& replicas) {
  std::vector<std::pair<DType, Aggregation>> legal;
  for (const DType dtype : {float16, bfloat16, float32, float64}) legal.emplace_back(dtype, Aggregation::mean);
  for (const DType dtype : {int32, int64, uint32, uint8}) legal.emplace_back(dtype, Aggregation::sum);
  for (const DType dtype : {float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32,
                            uint64, complex64, complex128, DType::bool_, DType::key}) {
    legal.emplace_back(dtype, Aggregation::none);
    legal.emplace_back(dtype, Aggregation::only_first_replica);
  }
  std::vector<Tree> states;
  for (const auto& [dtype, aggregation] : legal) {
    CAPTURE(name(dtype));
    CAPTURE(name(aggregation));
    CHECK_NOTHROW(check_aggregation("layer/variable", dtype, aggregation));
    if (dtype == DType::key) continue;  // no initializer makes keys
    const auto model = declaring(dtype, aggregation);
    const auto [trainable, state] = model.init(random::key(0), zeros({8}));
    states.push_back(call_on(replicas, model, trainable, state, batch_of(zeros({8})), true).second);
    CHECK(states.back().at("layer/variable").array().dtype() == dtype);
  }
  return Tree::list(states);
}

Tree default_is_none(const Replicas&) {
  const Model<Array, Array> model([](const Scope& scope, const Array& x) {
    static_cast<void>(scope.non_trainable("counter", {.shape = {}, .dtype = int32, .aggregation = Aggregation::sum}));
    static_cast<void>(scope.non_trainable("plain", {.shape = {}}));
    return x * scope.trainable("weight", {.shape = {}});
  });
  const std::vector<Variable> variables = model.variables(zeros({2}));
  REQUIRE(variables.size() == 3);
  CHECK(variables[0].aggregation == Aggregation::sum);
  CHECK(variables[1].aggregation == Aggregation::none);
  CHECK(variables[2].aggregation == Aggregation::none);
  return {};
}

Tree unknown_name(const Replicas&) {
  expect_error<AggregationError>([] { static_cast<void>(parse_aggregation("average")); }, "average", "none", "mean",
                                 "sum", "only_first_replica");
  return {};
}

}  // namespace

std::vector<AcceptanceCase> declaration_cases() {
  return {{"T01, T02: the mean of integers, bools and keys is refused where it is declared, on a mesh and without",
           mean_of_what_has_none},
          {"T03: floats have means, integers sums, and everything none and only_first_replica", legal_declarations},
          {"T04: without a word the aggregation is none, and sum stays sum", default_is_none, {4}},
          {"T05: average is no aggregation, and the text lists those there are", unknown_name, {4}}};
}

}  // namespace lockstep::tests
