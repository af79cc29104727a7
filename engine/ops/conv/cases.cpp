#include <utility>
#include <vector>

#include "engine/ops/conv/geometry.h"
#include "engine/ops/rules/samples.h"

namespace lockstep::ops {

Attrs conv_attrs(const ConvAttrs& attrs) {
  return {
      {"strides", attrs.strides}, {"padding", attrs.padding}, {"dilation", attrs.dilation}, {"groups", attrs.groups}};
}

std::vector<ConvCase> conv_cases() {
  return {
      {{2, 5, 6, 3}, {3, 3, 3, 4}, {2, 5, 6, 4}, {{1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1}},
      {{2, 7, 6, 2}, {3, 2, 2, 3}, {2, 3, 3, 3}, {{2, 3}, {{0, 1}, {2, 0}}, {1, 1}, 1}},
      {{1, 7, 8, 2}, {2, 3, 2, 2}, {1, 5, 3, 2}, {{1, 2}, {{1, 0}, {0, 2}}, {3, 2}, 1}},
      {{2, 4, 5, 4}, {3, 3, 2, 6}, {2, 2, 4, 6}, {{2, 1}, {{1, 1}, {0, 1}}, {1, 1}, 2}},
      {{2, 4, 4, 3}, {2, 2, 1, 6}, {2, 3, 2, 6}, {{1, 1}, {{0, 0}, {0, 0}}, {1, 2}, 3}},
      {{3, 9, 2}, {4, 2, 3}, {3, 3, 3}, {{2}, {{2, 1}}, {2}, 1}},
      {{1, 3, 4, 3, 2}, {2, 2, 2, 1, 2}, {1, 3, 3, 2, 2}, {{1, 2, 1}, {{0, 1}, {1, 1}, {1, 0}}, {1, 1, 2}, 2}},
      {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {{1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1}},
      {{1, 2, 2, 1}, {3, 3, 1, 1}, {1, 3, 3, 1}, {{4, 4}, {{5, 5}, {5, 5}}, {1, 1}, 1}},
      {{0, 4, 4, 2}, {3, 3, 2, 2}, {0, 4, 4, 2}, {{1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1}},
      {{2, 3, 3, 0}, {2, 2, 0, 2}, {2, 2, 2, 2}, {{1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1}},
      {{2, 3, 3, 2}, {2, 2, 2, 0}, {2, 2, 2, 0}, {{1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1}},
      {{2, 0, 3, 2}, {2, 2, 2, 2}, {2, 1, 2, 2}, {{1, 1}, {{1, 1}, {0, 0}}, {1, 1}, 1}},
  };
}

std::vector<ir::Sample> conv_samples(const ConvSample& sample) {
  std::vector<ir::Sample> list;
  for (const ConvCase& c : conv_cases()) {
    list.push_back(sample(float64, c));
    list.push_back(sample(float32, c));
  }
  for (const DType dtype : {float16, bfloat16}) {
    for (const std::size_t i : {0U, 3U}) list.push_back(sample(dtype, conv_cases()[i]));
  }
  for (const ConvCase& c : conv_cases()) {
    for (const DType dtype : {float32, float64}) {
      list.push_back(sample(dtype, c));
      list.back().attrs = list.back().attrs.with("sum_blocks", std::int64_t{1});
    }
  }
  return list;
}

}  // namespace lockstep::ops
