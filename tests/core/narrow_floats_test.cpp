#include "engine/core/narrow_floats.h"

#include <bit>
#include <cmath>
#include <limits>

#include <doctest/doctest.h>

namespace lockstep {

namespace {

// The nearest of all finite values of a format, ties to the even one, by trying them all: slow and plain.
template <class Value>
std::uint16_t nearest(double x, std::uint16_t infinity, const Value& value) {
  std::uint16_t best = 0;
  for (std::uint32_t bits = 0; bits < infinity; ++bits) {
    const double gap = std::abs(x - value(static_cast<std::uint16_t>(bits)));
    const double best_gap = std::abs(x - value(best));
    if (gap < best_gap || (gap == best_gap && bits % 2 == 0)) best = static_cast<std::uint16_t>(bits);
  }
  return best;
}

constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("every half is the rounding of its own value") {
  for (std::uint32_t i = 0; i < 0x10000; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float half = float16_value(bits);
    const float brain = bfloat16_value(bits);
    if (std::isnan(half)) {
      CHECK(std::isnan(float16_value(float16_bits(half))));
    } else if (float16_bits(half) != bits) {
      FAIL_CHECK("float16 " << bits);
    }
    if (std::isnan(brain)) {
      CHECK(std::isnan(bfloat16_value(bfloat16_bits(brain))));
      CHECK(bfloat16_bits(static_cast<double>(brain)) == bfloat16_bits(brain));
    } else if (bfloat16_bits(brain) != bits || bfloat16_bits(static_cast<double>(brain)) != bits) {
      FAIL_CHECK("bfloat16 " << bits);
    }
  }
}

TEST_CASE("float16 rounds to nearest, ties to even") {
  const double cases[] = {0.1,     1.0 / 3, 1 + 0x1p-11, 1 + 0x1p-11 + 0x1p-40, 1 + 0x3p-11,       65519.999,
                          0x1p-24, 0x1p-25, 0x1.8p-25,   0x1.0001p-25,          0x1p-14 - 0x1p-26, 0x1.ffcp-15,
                          2049,    2051,    1e-9};
  for (const double x : cases) {
    CAPTURE(x);
    const std::uint16_t expected = nearest(x, 0x7c00, float16_value);
    CHECK(float16_bits(x) == expected);
    CHECK(float16_bits(-x) == (expected | 0x8000));
  }
  CHECK(float16_bits(65520.0) == 0x7c00);
  CHECK(float16_bits(1e10) == 0x7c00);
  CHECK(float16_bits(-inf) == 0xfc00);
  CHECK(float16_bits(nan) == 0x7e00);
  CHECK(float16_bits(-0.0) == 0x8000);
  // Through float this would round up to a tie first, and then to even.
  CHECK(float16_bits(1 + 0x1p-11 + 0x1p-40) == 0x3c01);
}

TEST_CASE("bfloat16 rounds to nearest, ties to even") {
  const double cases[] = {0.1,      1.0 / 3,    1 + 0x1p-8, 1 + 0x1p-8 + 0x1p-40, 1 + 0x3p-8, 0x1p-133,
                          0x1p-134, 0x1.8p-134, 3e38};
  for (const double x : cases) {
    CAPTURE(x);
    const std::uint16_t expected = nearest(x, 0x7f80, bfloat16_value);
    CHECK(bfloat16_bits(x) == expected);
    CHECK(bfloat16_bits(-x) == (expected | 0x8000));
  }
  CHECK(bfloat16_bits(3.4e38F) == 0x7f80);
  CHECK(bfloat16_bits(1e300) == 0x7f80);
  CHECK(bfloat16_bits(-inf) == 0xff80);
  CHECK(bfloat16_bits(nan) == 0x7fc0);
  CHECK(bfloat16_bits(0.1F) == bfloat16_bits(static_cast<double>(0.1F)));
}

}  // namespace lockstep
