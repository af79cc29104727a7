#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/ops.h>
#include <lockstep/transforms.h>

#include "tests/support/array_values.h"
#include "tests/support/halfway_numbers.h"

using namespace lockstep;
using tests::Halfway;

namespace {

/// The first element that differs, or -1.
std::ptrdiff_t first_wrong(const Array& given, const std::vector<double>& expected) {
  const std::vector<double> elements = tests::values(given);
  if (elements.size() != expected.size()) return static_cast<std::ptrdiff_t>(elements.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (elements[i] != expected[i]) return static_cast<std::ptrdiff_t>(i);
  }
  return -1;
}

/// Alone, and in a compiled function with others around it.
template <class T>
void check_rounded_once(const Halfway<T>& list, DType dtype) {
  const Array x = array(list.given);
  CAPTURE(name(dtype));
  CAPTURE(to_string(x.type()));
  CHECK(first_wrong(convert(x, dtype), list.expected) == -1);
  const auto program = jit([dtype](const Array& v) { return convert(where(equal(v, v), v, zeros_like(v)), dtype); });
  CHECK(first_wrong(program(x), list.expected) == -1);
}

}  // namespace

TEST_CASE("a conversion to fewer digits rounds once, to the nearest, ties to even") {
  for (const DType dtype : {float16, bfloat16}) check_rounded_once(tests::halfway_doubles(dtype), dtype);
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    check_rounded_once(tests::halfway_integers<std::int16_t>(dtype), dtype);
    check_rounded_once(tests::halfway_integers<std::int32_t>(dtype), dtype);
    check_rounded_once(tests::halfway_integers<std::int64_t>(dtype), dtype);
    check_rounded_once(tests::halfway_integers<std::uint16_t>(dtype), dtype);
    check_rounded_once(tests::halfway_integers<std::uint32_t>(dtype), dtype);
    check_rounded_once(tests::halfway_integers<std::uint64_t>(dtype), dtype);
  }
}

TEST_CASE("constants round once: filled arrays, weak scalars and what is folded") {
  for (const DType dtype : {float16, bfloat16}) {
    const Halfway<double> all = tests::halfway_doubles(dtype);
    for (std::size_t i = 0; i < all.given.size(); i += 977) {
      const double x = all.given[i], expected = all.expected[i];
      CAPTURE(x);
      CHECK(full({}, x, dtype).astype(float64).item<double>() == expected);
      CHECK((zeros({2}, dtype) + x)[1].astype(float64).item<double>() == expected);
      const auto folded = jit([x, dtype](const Array& v) { return convert(full({2}, x, float64), dtype) + v; });
      CHECK(folded(zeros({2}, dtype))[1].astype(float64).item<double>() == expected);
    }
  }
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    const Halfway<std::int64_t> all = tests::halfway_integers<std::int64_t>(dtype);
    for (std::size_t i = 0; i < all.given.size(); i += 11) {
      const std::int64_t x = all.given[i];
      CAPTURE(x);
      CHECK(full({}, x, dtype).astype(float64).item<double>() == all.expected[i]);
      const auto folded = jit([x, dtype](const Array& v) { return convert(full({2}, x, int64), dtype) + v; });
      CHECK(folded(zeros({2}, dtype))[1].astype(float64).item<double>() == all.expected[i]);
    }
  }
}
