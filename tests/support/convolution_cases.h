#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/attrs.h>
#include <lockstep/types.h>

#include "engine/ops/primitives.h"

// Convolutions of shapes on which the libraries below take other paths than on the samples'.
namespace lockstep::tests {

struct ConvolutionCase {
  const char* name;
  Shape x, kernel, y;
  Attrs attrs;
};

inline Attrs conv_attrs(std::vector<std::int64_t> strides, std::vector<std::vector<std::int64_t>> padding,
                        std::vector<std::int64_t> dilation, std::int64_t groups) {
  return {{"strides", std::move(strides)},
          {"padding", std::move(padding)},
          {"dilation", std::move(dilation)},
          {"groups", groups}};
}

inline std::vector<ConvolutionCase> convolution_cases() {
  return {
      {"same padding",
       {2, 14, 14, 16},
       {3, 3, 16, 32},
       {2, 14, 14, 32},
       conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 1)},
      {"stride 2", {2, 16, 16, 16}, {3, 3, 16, 16}, {2, 8, 8, 16}, conv_attrs({2, 2}, {{0, 1}, {0, 1}}, {1, 1}, 1)},
      {"one channel", {4, 28, 28, 1}, {5, 5, 1, 16}, {4, 28, 28, 16}, conv_attrs({1, 1}, {{2, 2}, {2, 2}}, {1, 1}, 1)},
      {"depthwise", {2, 12, 12, 32}, {3, 3, 1, 32}, {2, 12, 12, 32}, conv_attrs({1, 1}, {{1, 1}, {1, 1}}, {1, 1}, 32)},
      {"pointwise", {2, 9, 9, 33}, {1, 1, 33, 17}, {2, 9, 9, 17}, conv_attrs({1, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1)},
      {"dilated", {1, 15, 15, 16}, {3, 3, 16, 16}, {1, 11, 11, 16}, conv_attrs({1, 1}, {{0, 0}, {0, 0}}, {2, 2}, 1)},
      {"one dimension", {3, 50, 16}, {5, 16, 24}, {3, 25, 24}, conv_attrs({2}, {{2, 1}}, {1}, 1)},
      {"three dimensions",
       {1, 6, 7, 8, 8},
       {3, 3, 3, 8, 8},
       {1, 6, 7, 8, 8},
       conv_attrs({1, 1, 1}, {{1, 1}, {1, 1}, {1, 1}}, {1, 1, 1}, 1)},
      {"one output", {1, 2, 2, 3}, {3, 3, 3, 1}, {1, 3, 3, 1}, conv_attrs({4, 4}, {{5, 5}, {5, 5}}, {1, 1}, 1)},
      {"four dimensions",
       {2, 3, 4, 3, 4, 4},
       {2, 2, 1, 3, 2, 6},
       {2, 2, 2, 3, 3, 6},
       conv_attrs({1, 2, 1, 1}, {{0, 0}, {1, 0}, {0, 0}, {0, 1}}, {1, 1, 1, 1}, 2)},
  };
}

/// Kernels of one place, strided, of few channels, whose gradients libraries below write beyond their memory (oneDNN issue
/// 6035); and one channel of several images with a last extent of 1.
inline std::vector<ConvolutionCase> strided_cases() {
  std::vector<ConvolutionCase> cases;
  for (const std::int64_t channels : {1, 2, 3, 5, 8, 12, 15, 16, 17}) {
    for (const std::int64_t features : {1, 8, 16}) {
      cases.push_back({"one place, strides 2 2",
                       {2, 16, 16, channels},
                       {1, 1, channels, features},
                       {2, 8, 8, features},
                       conv_attrs({2, 2}, {{0, 0}, {0, 0}}, {1, 1}, 1)});
      cases.push_back({"one place, strides 2 1",
                       {2, 9, 8, channels},
                       {1, 1, channels, features},
                       {2, 5, 8, features},
                       conv_attrs({2, 1}, {{0, 0}, {0, 0}}, {1, 1}, 1)});
      cases.push_back({"one place, padded, strides 4 3",
                       {2, 16, 11, channels},
                       {1, 1, channels, features},
                       {2, 5, 5, features},
                       conv_attrs({4, 3}, {{1, 2}, {2, 1}}, {1, 1}, 1)});
      cases.push_back({"one place of a line",
                       {2, 33, channels},
                       {1, channels, features},
                       {2, 17, features},
                       conv_attrs({2}, {{0, 0}}, {1}, 1)});
    }
  }
  cases.push_back({"one place, in groups",
                   {2, 16, 16, 8},
                   {1, 1, 4, 16},
                   {2, 8, 8, 16},
                   conv_attrs({2, 2}, {{0, 0}, {0, 0}}, {1, 1}, 2)});
  for (const std::int64_t features : {1, 3}) {
    cases.push_back({"one channel, last extent 1",
                     {2, 2, 3, 1},
                     {1, 2, 1, features},
                     {2, 2, 1, features},
                     conv_attrs({1, 2}, {{0, 0}, {0, 0}}, {1, 1}, 1)});
    cases.push_back({"one channel of a line, last extent 1",
                     {3, 4, 1},
                     {2, 1, features},
                     {3, 1, features},
                     conv_attrs({3}, {{0, 0}}, {1}, 1)});
  }
  return cases;
}

/// Calls check(primitive, sample, name) for a case's convolution and both gradients.
template <class Check>
void for_each_of_family(const ConvolutionCase& c, DType dtype, Check check) {
  const std::vector<std::int64_t> spatial(c.x.begin() + 1, c.x.end() - 1);
  const std::vector<std::int64_t> window(c.kernel.begin(), c.kernel.end() - 2);
  const ir::SampleInput x{{dtype, c.x, {}}, -1, 1, false};
  const ir::SampleInput kernel{{dtype, c.kernel, {}}, -1, 1, false};
  const ir::SampleInput y{{dtype, c.y, {}}, -1, 1, false};
  check(ops::primitives::conv(), ir::Sample{{x, kernel}, c.attrs, {}}, c.name);
  check(ops::primitives::conv_input_grad(), ir::Sample{{y, kernel}, c.attrs.with("spatial", spatial), {}}, c.name);
  check(ops::primitives::conv_kernel_grad(), ir::Sample{{x, y}, c.attrs.with("window", window), {}}, c.name);
}

}  // namespace lockstep::tests
