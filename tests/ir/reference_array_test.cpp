#include <cstring>
#include <limits>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ir/primitive.h"
#include "tests/support/expect_error.h"

namespace lockstep::ir {

using tests::error_text;

namespace {

std::vector<std::byte> bytes(std::initializer_list<int> values) {
  std::vector<std::byte> result;
  for (const int value : values) result.push_back(static_cast<std::byte>(value));
  return result;
}

}  // namespace

TEST_CASE("elements and bytes are two forms of one array") {
  struct Case {
    DType dtype;
    std::vector<std::byte> bytes;
    std::variant<std::vector<double>, std::vector<std::int64_t>, std::vector<std::complex<double>>> values;
  };
  using Ints = std::vector<std::int64_t>;
  using Reals = std::vector<double>;
  const Case cases[] = {
      {bool_, bytes({0, 1}), Ints{0, 1}},
      {int8, bytes({0xff, 0x7f}), Ints{-1, 127}},
      {uint8, bytes({0xff, 0x7f}), Ints{255, 127}},
      {int16, bytes({0, 0x80, 1, 0}), Ints{-32768, 1}},
      {uint16, bytes({0, 0x80, 1, 0}), Ints{32768, 1}},
      {int32, bytes({0xfe, 0xff, 0xff, 0xff, 1, 2, 0, 0}), Ints{-2, 513}},
      {uint32, bytes({0xfe, 0xff, 0xff, 0xff, 1, 2, 0, 0}), Ints{4294967294, 513}},
      {int64, bytes({1, 0, 0, 0, 0, 0, 0, 0x80, 2, 0, 0, 0, 0, 0, 0, 0}),
       Ints{std::numeric_limits<std::int64_t>::min() + 1, 2}},
      {uint64, bytes({0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0, 0, 0}), Ints{-1, 2}},
      {float16, bytes({0, 0x3c, 0, 0xc1}), Reals{1, -2.5}},
      {bfloat16, bytes({0x80, 0x3f, 0x20, 0xc0}), Reals{1, -2.5}},
      {float32, bytes({0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0}), Reals{1, -2.5}},
      {float64, bytes({0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 4, 0xc0}), Reals{1, -2.5}},
      {complex64, bytes({0, 0, 0x80, 0x3f, 0, 0, 0x20, 0xc0, 0, 0, 0, 0, 0, 0, 0x80, 0x3f}),
       std::vector<std::complex<double>>{{1, -2.5}, {0, 1}}},
      // The first word is the high half.
      {DType::key, bytes({1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0}),
       Ints{(std::int64_t{1} << 32) + 2, std::numeric_limits<std::int64_t>::min()}},
  };
  for (const Case& c : cases) {
    CAPTURE(name(c.dtype));
    const ArrayType type{c.dtype, {2}, {}};
    const ReferenceArray array = reference_from_bytes(type, c.bytes);
    CHECK(array.type == type);
    CHECK(array.values == c.values);
    CHECK(reference_to_bytes(array) == c.bytes);
    CHECK(reference_to_bytes(reference_zeros(type)) == std::vector<std::byte>(c.bytes.size()));
  }
}

TEST_CASE("elements are rounded and wrapped to the dtype") {
  const auto rounded = [](DType dtype, double value) {
    ReferenceArray array = reference_zeros({dtype, {}, {}});
    array.floats()[0] = value;
    return reference_from_bytes(array.type, reference_to_bytes(array)).floats()[0];
  };
  CHECK(rounded(float64, 0.1) == 0.1);
  CHECK(rounded(float32, 0.1) == static_cast<double>(0.1F));
  CHECK(rounded(float16, 0.1) == 0.0999755859375);
  CHECK(rounded(bfloat16, 0.1) == 0.10009765625);
  const auto wrapped = [](DType dtype, std::int64_t value) {
    ReferenceArray array = reference_zeros({dtype, {}, {}});
    array.integers()[0] = value;
    return reference_from_bytes(array.type, reference_to_bytes(array)).integers()[0];
  };
  CHECK(wrapped(int8, 128) == -128);
  CHECK(wrapped(uint8, -1) == 255);
  CHECK(wrapped(int32, (std::int64_t{1} << 32) + 5) == 5);
  CHECK(wrapped(bool_, 256) == 1);
}

TEST_CASE("the bytes must be as many as the type says") {
  CHECK(error_text<ValueError>([] {
          reference_from_bytes({float32, {2}, {}}, bytes({1, 2, 3}));
        }) == "reference_from_bytes: got 3 bytes for f32[2], expected 8");
}

}  // namespace lockstep::ir
