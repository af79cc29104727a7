#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/resident_memory.h"

// What is compiled anew again and again takes the memory of the caches, which have a limit, and no more.

using namespace lockstep;

namespace {

/// Runs `round(i)` until the caches are full and the heap has found room for what comes and goes, then as often again: how
/// many bytes each of the second half added.
template <class Round>
double growth_of_each(int rounds, const Round& round) {
  for (int i = 0; i < rounds; ++i) round(i);
  const auto before = static_cast<double>(tests::resident_bytes());
  for (int i = rounds; i < 2 * rounds; ++i) round(i);
  return (static_cast<double>(tests::resident_bytes()) - before) / rounds;
}

/// Number i of `count` shapes, large and small ones mixed, so that later ones take no more memory than earlier ones.
Shape shape_of(int i, int count) {
  constexpr std::int64_t prime = 7919;
  const std::int64_t number = i * prime % count;
  return {1 + number % 101, 1 + number / 101};
}

}  // namespace

TEST_CASE("functions that capture ever new constants do not grow the process") {
  const Array x = ones({64});
  const double bytes = growth_of_each(15000, [&](int i) {
    const double c = 1.0 + i * 1e-4;
    jit([c](const Array& a) { return tanh(a * c + c) * exp(a - c); })(x);
  });
  MESSAGE(bytes, " bytes each");
  CHECK(bytes < 500);
}

TEST_CASE("eager ops of ever new shapes do not grow the process") {
  const double bytes = growth_of_each(12000, [](int i) {
    const Shape shape = shape_of(i, 24000);
    static_cast<void>(array(std::vector<float>(static_cast<std::size_t>(shape.size())), shape) * 2.0 + 1.0);
  });
  MESSAGE(bytes, " bytes each");
  CHECK(bytes < 1000);
}

TEST_CASE("eager products and sums of ever new shapes do not grow the process") {
  const double bytes = growth_of_each(24000, [](int i) {
    const Array a = ones(shape_of(i, 48000));
    static_cast<void>(sum(matmul(a, transpose(a, {1, 0})), 0));
  });
  MESSAGE(bytes, " bytes each");
  CHECK(bytes < 500);
}
