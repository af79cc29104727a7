#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/isa.h>

#include "tests/backends/onednn/onednn_runs.h"
#include "tests/support/dims.h"
#include "tests/support/skip.h"

namespace lockstep::tests {

namespace {

struct DotCase {
  const char* name;
  Shape a, b;
  std::vector<Dims> contract;
  std::vector<Dims> batch = {{}, {}};
};

/// Every way in which dimensions merge or do not, each at a size for the loop of our own and at one for oneDNN.
std::vector<DotCase> dot_cases() {
  return {
      {"plain", {33, 57}, {57, 45}, {{1}, {0}}},
      {"plain and small", {5, 7}, {7, 6}, {{1}, {0}}},
      {"first operand transposed", {57, 33}, {57, 45}, {{0}, {0}}},
      {"first operand transposed and small", {7, 5}, {7, 6}, {{0}, {0}}},
      {"second operand transposed", {33, 57}, {45, 57}, {{1}, {1}}},
      {"second operand transposed and small", {5, 7}, {6, 7}, {{1}, {1}}},
      {"both transposed", {57, 33}, {45, 57}, {{0}, {1}}},
      {"deep", {3, 2500}, {2500, 70}, {{1}, {0}}},
      {"one row", {1, 30}, {30, 20}, {{1}, {0}}},
      {"one column", {20, 30}, {30, 1}, {{1}, {0}}},
      {"a vector on the right", {40, 30}, {30}, {{1}, {0}}},
      {"a vector on the left, transposed matrix", {30}, {20, 30}, {{0}, {1}}},
      {"two vectors", {50}, {50}, {{0}, {0}}},
      {"one long row", {1, 300}, {300, 200}, {{1}, {0}}},
      {"one long row, transposed matrix", {1, 300}, {200, 300}, {{1}, {1}}},
      {"one long column", {200, 300}, {300, 1}, {{1}, {0}}},
      {"one long column, transposed matrix", {300, 200}, {300, 1}, {{0}, {0}}},
      {"two long vectors", {5000}, {5000}, {{0}, {0}}},
      {"outer product", {200}, {300}, {{}, {}}},
      {"contraction of extent one", {200, 1}, {1, 30}, {{1}, {0}}},
      {"contraction of one place", {1}, {1}, {{0}, {0}}},
      {"leading batch", {6, 33, 20}, {6, 20, 17}, {{2}, {1}}, {{0}, {0}}},
      {"two leading batches, the second transposed", {2, 3, 33, 20}, {2, 3, 17, 20}, {{3}, {3}}, {{0, 1}, {0, 1}}},
      {"batches around rows", {2, 40, 3, 16}, {2, 50, 3, 16}, {{3}, {3}}, {{0, 2}, {0, 2}}},
      {"batches around rows, small", {2, 4, 3, 5}, {2, 6, 3, 5}, {{3}, {3}}, {{0, 2}, {0, 2}}},
      {"batches in another order", {3, 40, 2, 16}, {2, 50, 3, 16}, {{3}, {3}}, {{0, 2}, {2, 0}}},
      {"batch last", {40, 16, 3}, {16, 50, 3}, {{1}, {0}}, {{2}, {2}}},
      {"two merging contractions", {30, 4, 25}, {4, 25, 40}, {{1, 2}, {0, 1}}},
      {"two contractions, the first operand's in another order", {30, 25, 4}, {4, 25, 40}, {{2, 1}, {0, 1}}},
      {"two contractions around rows", {25, 30, 4}, {25, 4, 40}, {{0, 2}, {0, 1}}},
      {"two contractions around both", {25, 30, 4}, {25, 40, 4}, {{0, 2}, {0, 2}}},
      {"rows around the contraction", {10, 60, 12}, {60, 40}, {{1}, {0}}},
      {"columns around the contraction", {40, 60}, {10, 60, 12}, {{1}, {1}}},
      {"neither dimension is dense", {20, 30, 5}, {30, 40, 5}, {{1}, {0}}, {{2}, {2}}},
      {"of many dimensions", {2, 3, 2, 3, 2, 3, 4}, {4, 2, 3, 2, 3, 2, 5}, {{6, 0}, {0, 1}}, {{1, 4}, {4, 3}}},
  };
}

ir::Sample dot_sample(const DotCase& c, DType dtype) {
  ir::Sample sample;
  sample.inputs = {{{dtype, c.a, {}}, -1, 1, false}, {{dtype, c.b, {}}, -1, 1, false}};
  sample.attrs = {{"contract", c.contract}, {"batch", c.batch}};
  return sample;
}

}  // namespace

TEST_CASE("products of every layout have the reference's values") {
  if (!offers()) return skip(not_offered);
  for (const DotCase& c : dot_cases())
    check_against_reference(ops::primitives::dot_general(), dot_sample(c, float32), c.name);
}

TEST_CASE("16-bit products, where this processor has them") {
  for (const DType dtype : {bfloat16, float16}) {
    for (const DotCase& c : dot_cases()) {
      const ir::Sample sample = dot_sample(c, dtype);
      if (BoundOp(ops::primitives::dot_general(), sample).kernel == nullptr) continue;
      check_against_reference(ops::primitives::dot_general(), sample, c.name);
    }
  }
}

#if defined(__x86_64__)
TEST_CASE("what oneDNN has only a plain loop for is left to others") {
  if (backend::usable_isa() != backend::Isa::avx512 || __builtin_cpu_supports("avx512fp16")) {
    return skip("oneDNN has more than a plain loop for float16, or nothing");
  }
  for (const DotCase& c : dot_cases()) {
    CAPTURE(std::string(c.name));
    CHECK(BoundOp(ops::primitives::dot_general(), dot_sample(c, float16)).kernel == nullptr);
  }
}
#endif

TEST_CASE("the op's own samples, in float32") {
  int made = 0;
  for (const ir::Sample& sample : ops::primitives::dot_general().samples()) {
    if (BoundOp(ops::primitives::dot_general(), sample).kernel == nullptr) continue;
    check_against_reference(ops::primitives::dot_general(), sample, "sample");
    ++made;
  }
  CHECK((made >= 5) == offers());
}

TEST_CASE("what has no elements, float64, integers and other ops are left to others") {
  const auto left = [](const DotCase& c, DType dtype) {
    return BoundOp(ops::primitives::dot_general(), dot_sample(c, dtype)).kernel == nullptr;
  };
  CHECK(left({"no depth", {3, 0}, {0, 4}, {{1}, {0}}}, float32));
  CHECK(left({"no rows", {0, 3}, {3, 4}, {{1}, {0}}}, float32));
  CHECK(left(dot_cases()[0], float64));
  CHECK(left(dot_cases()[0], int32));
  CHECK(left(dot_cases()[0], complex64));
  CHECK(BoundOp(ops::primitives::exp(), {{float32, {4}, {}}}, {}).kernel == nullptr);
}

}  // namespace lockstep::tests
