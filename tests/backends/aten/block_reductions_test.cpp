#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <doctest/doctest.h>

#include "tests/backends/aten/kernel_runs.h"
#include "tests/support/dims.h"

// Sums in the order that docs/reproducibility.md states, in plain loops, and extrema where numbers are special.
namespace lockstep::tests {
namespace {

using Numbers = std::vector<float>;

/// The sums of blocks, joined as a binary counter carries.
class Counter {
 public:
  void add(float sum) {
    waiting_.push_back(sum);
    for (std::uint64_t digit = blocks_++; digit % 2 == 1; digit /= 2) join();
  }
  float finish() {
    while (waiting_.size() > 1) join();
    return waiting_.front();
  }

 private:
  void join() {
    const float right = waiting_.back();
    waiting_.pop_back();
    waiting_.back() += right;
  }

  std::vector<float> waiting_;
  std::uint64_t blocks_ = 0;
};

float column_sum(const Numbers& x, std::size_t from, std::size_t count, std::size_t stride) {
  Counter counter;
  for (std::size_t first = 0; first < count; first += 64) {
    float sum = 0;
    for (std::size_t i = first; i < std::min(first + 64, count); ++i) sum += x[from + i * stride];
    counter.add(sum);
  }
  return counter.finish();
}

float row_sum(const Numbers& x, std::size_t from, std::size_t count) {
  Counter counter;
  for (std::size_t first = 0; first < count; first += 2048) {
    std::vector<float> sums(32, 0.0F);
    for (std::size_t i = first; i < std::min(first + 2048, count); ++i) sums[(i - first) % 32] += x[from + i];
    for (std::size_t half = 16; half > 0; half /= 2) {
      for (std::size_t l = 0; l < half; ++l) sums[l] += sums[l + half];
    }
    counter.add(sums[0]);
  }
  return counter.finish();
}

Numbers drawn_numbers(std::int64_t count) {
  std::mt19937 random(static_cast<std::uint32_t>(count));
  std::normal_distribution<float> normal;
  Numbers numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = normal(random);
  return numbers;
}

Numbers reduced(const ir::Primitive& op, const Shape& shape, const Numbers& x, const Dims& axes = {1}) {
  const BoundOp bound(op, {{float32, shape, {}}}, {{"axes", axes}});
  const std::vector<Memory> memory = [&] {
    std::vector<Memory> operands;
    operands.emplace_back(std::as_bytes(std::span(x)));
    return operands;
  }();
  const std::vector<std::byte> bytes = bound.run(memory)[0];
  Numbers result(bytes.size() / sizeof(float));
  std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

}  // namespace

TEST_CASE("sums over neighbouring axes are added in the stated order") {
  for (const std::int64_t outer : {1, 3}) {
    for (const std::int64_t count : {1, 2, 31, 64, 65, 200, 2048, 5000, 20000}) {
      for (const std::int64_t inner : {1, 2, 7, 300}) {
        if (outer * count * inner > 1000000) continue;
        CAPTURE(outer);
        CAPTURE(count);
        CAPTURE(inner);
        const Numbers x = drawn_numbers(outer * count * inner);
        Numbers expected;
        for (std::int64_t o = 0; o < outer; ++o) {
          for (std::int64_t c = 0; c < inner; ++c) {
            const auto from = static_cast<std::size_t>(o * count * inner + c);
            const auto n = static_cast<std::size_t>(count);
            expected.push_back(inner == 1 ? row_sum(x, from, n)
                                          : column_sum(x, from, n, static_cast<std::size_t>(inner)));
          }
        }
        CHECK(reduced(ops::primitives::reduce_sum(), {outer, count, inner}, x) == expected);
      }
    }
  }
}

TEST_CASE("sums over axes with others between them: one group after the other, the longest first") {
  const auto& sum = ops::primitives::reduce_sum();
  for (const auto& [a, b, c, d] : std::vector<std::array<std::int64_t, 4>>{
           {3, 700, 8, 4}, {2, 5, 3, 600}, {1, 9, 2, 9}, {16, 64, 5, 3}, {2, 0, 3, 4}, {0, 5, 3, 4}, {2, 3, 0, 4}}) {
    CAPTURE(b);
    CAPTURE(d);
    const Numbers x = drawn_numbers(a * b * c * d);
    const Numbers expected = b >= d ? reduced(sum, {a * c, d, 1}, reduced(sum, {a, b, c * d}, x))
                                    : reduced(sum, {a, b, c}, reduced(sum, {a * b * c, d, 1}, x));
    CHECK(reduced(sum, {a, b, c, d}, x, {1, 3}) == expected);
    CHECK(reduced(sum, {a, b, 1, c, d}, x, {1, 4}) == expected);
  }
  const Numbers x = drawn_numbers(2 * 3 * 2 * 7 * 2 * 5);
  const Numbers after_the_longest = reduced(sum, {2 * 3 * 2, 7, 2 * 5}, x);
  const Numbers after_two = reduced(sum, {2 * 3 * 2 * 2, 5, 1}, after_the_longest);
  CHECK(reduced(sum, {2, 3, 2, 7, 2, 5}, x, {1, 3, 5}) == reduced(sum, {2, 3, 2 * 2}, after_two));
}

TEST_CASE("extrema over neighbouring axes are NaN where an element is") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::int64_t inner : {1, 3}) {
    for (const std::int64_t count : {1, 5, 32, 70}) {
      CAPTURE(inner);
      CAPTURE(count);
      const Shape shape{2, count, inner};
      Numbers x = drawn_numbers(shape.size());
      std::fill(x.begin() + count * inner, x.end(), -infinity);
      for (std::int64_t position = 0; position < count; ++position) {
        Numbers holed = x;
        holed[static_cast<std::size_t>(position * inner)] = nan;
        const Numbers largest = reduced(ops::primitives::reduce_max(), shape, holed);
        const Numbers smallest = reduced(ops::primitives::reduce_min(), shape, holed);
        CHECK(std::isnan(largest[0]));
        CHECK(std::isnan(smallest[0]));
        CHECK(largest.back() == -infinity);
        CHECK(smallest.back() == -infinity);
      }
    }
  }
}

}  // namespace lockstep::tests
