#include <cstddef>
#include <cstdint>
#include <vector>

#include <doctest/doctest.h>

#include "tests/support/halfway_numbers.h"
#include "tests/support/run_reference.h"

namespace lockstep::tests {
namespace {

template <class T>
void check_rounded_once(const Halfway<T>& list, DType from, DType dtype) {
  const ArrayType type{from, Shape{static_cast<std::int64_t>(list.given.size())}, {}};
  ir::ReferenceArray x = ir::reference_zeros(type);
  if constexpr (std::is_same_v<T, double>) {
    x.floats() = list.given;
  } else {
    x.integers().clear();
    for (const T element : list.given) x.integers().push_back(static_cast<std::int64_t>(element));
  }
  CAPTURE(name(from));
  CAPTURE(name(dtype));
  CHECK(run_reference("convert", {x}, {{"dtype", dtype}})[0].floats() == list.expected);
}

}  // namespace

TEST_CASE("the reference of convert rounds once") {
  for (const DType dtype : {float16, bfloat16}) check_rounded_once(halfway_doubles(dtype), float64, dtype);
  for (const DType dtype : {float16, bfloat16, float32, float64}) {
    check_rounded_once(halfway_integers<std::int32_t>(dtype), int32, dtype);
    check_rounded_once(halfway_integers<std::int64_t>(dtype), int64, dtype);
    check_rounded_once(halfway_integers<std::uint64_t>(dtype), uint64, dtype);
  }
}

}  // namespace lockstep::tests
