#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/parallel.h>

#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::expect_error;

TEST_CASE("an aggregation's name reads back") {
  for (const auto aggregation :
       {Aggregation::none, Aggregation::mean, Aggregation::sum, Aggregation::only_first_replica}) {
    CHECK(parse_aggregation(name(aggregation)) == aggregation);
  }
  expect_error<AggregationError>([] { parse_aggregation("average"); }, "\"average\"",
                                 "none, mean, sum, only_first_replica");
}

TEST_CASE("which dtypes an aggregation takes") {
  struct Row {
    std::vector<DType> dtypes;
    bool sum;
    bool mean;
  };
  const std::vector<Row> rows = {
      {{float16, bfloat16, float32, float64, complex64, complex128}, true, true},
      {{int8, int16, int32, int64, uint8, uint16, uint32, uint64}, true, false},
      {{bool_, DType::key}, false, false},
  };
  for (const Row& row : rows) {
    for (const DType dtype : row.dtypes) {
      CAPTURE(name(dtype));
      CHECK_NOTHROW(check_aggregation("w", dtype, Aggregation::none));
      CHECK_NOTHROW(check_aggregation("w", dtype, Aggregation::only_first_replica));
      const auto sum = [dtype] { check_aggregation("a/count", dtype, Aggregation::sum); };
      const auto mean = [dtype] { check_aggregation("a/count", dtype, Aggregation::mean); };
      if (row.sum)
        CHECK_NOTHROW(sum());
      else
        expect_error<AggregationError>(sum, "\"a/count\"", name(dtype), "sum", "none, only_first_replica");
      if (row.mean)
        CHECK_NOTHROW(mean());
      else
        expect_error<AggregationError>(mean, "\"a/count\"", name(dtype), "mean", "none", "only_first_replica");
    }
  }
}
