#include <doctest/doctest.h>

#include "tests/support/cpu_and_aten.h"
#include "tests/support/mapped_program.h"
#include "tests/support/random_program.h"
#include "tests/support/run_compiled.h"

// Views, in-place writes and tiles are promises of the kernels: compiled functions give the bits of eval with the same
// backend, which hands every kernel whole contiguous operands.
namespace lockstep::tests {
namespace {

using ir::Value;
using Values = std::vector<Value>;

void check_equal_with_aten(const ir::FunctionPtr& f, std::uint64_t seed) {
  const auto backend = std::make_shared<const CpuAndAten>();
  const std::vector<eval::HostArray> arguments = random_host_arrays(f->input_types(), seed);
  const Bytes expected = bytes_of(eval::eval(*f, arguments, *backend));
  for (bool optimize : {false, true}) {
    CAPTURE(optimize);
    CHECK(compiled(f, arguments, backend, 2, optimize) == expected);
  }
}

}  // namespace

TEST_CASE("random programs, compiled and evaluated by aten") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    check_equal_with_aten(random_program(seed, 20), seed);
  }
}

TEST_CASE("random shard bodies, compiled and evaluated by aten") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    check_equal_with_aten(random_mapped(seed), seed);
  }
}

TEST_CASE("element-wise ops on tiles give the bits of the whole array") {
  for (DType dtype : {DType::float32, DType::float64, DType::bfloat16}) {
    const ArrayType type{dtype, Shape{7, 9013}, {}};
    const ir::FunctionPtr f = make_function({type, type}, [](ir::Builder&, std::span<const Value> x) {
      Values results;
      for (const Value& y : {ops::sin(x[0]), ops::exp(x[0]), ops::tanh(x[0]), ops::logistic(x[0]), ops::erf(x[0]),
                             ops::expm1(x[0]), ops::rsqrt(ops::abs(x[0])), ops::log1p(ops::abs(x[0]))}) {
        results.push_back(ops::select(ops::greater(y, x[1]), y * 0.5, ops::div(x[1], y)));
      }
      return results;
    });
    CAPTURE(to_string(type));
    check_equal_with_aten(f, 3);
  }
}

}  // namespace lockstep::tests
