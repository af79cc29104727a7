#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

// Constants of StableHLO's text. Values: what XLA computes of the module (jax 0.10.2), and what MLIR's parser refuses.

using namespace lockstep;
using tests::expect_error;

namespace {

Array read_constant(const std::string& elements, const std::string& type) {
  return exchange::from_stablehlo("module { func.func public @main() -> tensor<" + type +
                                  "> {\n%0 = stablehlo.constant dense<" + elements + "> : tensor<" + type +
                                  ">\nreturn %0 : tensor<" + type + "> } }")({})[0];
}

}  // namespace

TEST_CASE("constants have the bits that MLIR reads") {
  struct Row {
    const char *elements, *type;
    std::vector<int> bytes;  ///< Little-endian.
  };
  const Row rows[] = {
      {"3.5e38", "f32", {0, 0, 0x80, 0x7f}},
      {"-3.5e38", "f32", {0, 0, 0x80, 0xff}},
      {"1.0e400", "f64", {0, 0, 0, 0, 0, 0, 0xf0, 0x7f}},
      {"1.0e-50", "f32", {0, 0, 0, 0}},
      {"-1.0e-500", "f32", {0, 0, 0, 0x80}},
      {"1.0e-45", "f32", {1, 0, 0, 0}},
      {"0x7FC00000", "f32", {0, 0, 0xc0, 0x7f}},
      {"65504.0", "f16", {0xff, 0x7b}},
      {"65520.0", "f16", {0, 0x7c}},
      // Just above the middle of 1 and its neighbour; rounded to float first, it is the middle, which goes to 1.
      {"1.00048828126", "f16", {1, 0x3c}},
      {"1.003906250001", "bf16", {0x81, 0x3f}},
      {"255", "i8", {255}},
      {"-128", "i8", {128}},
      {"0x7F", "i8", {127}},
      {"-0x7F", "i8", {129}},
      {"255", "ui8", {255}},
      {"18446744073709551615", "ui64", {255, 255, 255, 255, 255, 255, 255, 255}},
      {"-9223372036854775808", "i64", {0, 0, 0, 0, 0, 0, 0, 128}},
      {"1", "i1", {1}},
      {"-1", "i1", {1}},
      {"true", "3xi1", {1, 1, 1}},
      {"[true, false, 1]", "3xi1", {1, 0, 1}},
      {"\"0x01\"", "6xi1", {1, 1, 1, 1, 1, 1}},
      {"\"0xFF\"", "6xi1", {1, 1, 1, 1, 1, 1}},
      {"\"0x01000100FF01\"", "6xi1", {1, 0, 1, 0, 1, 1}},
      {"\"0x0501\"", "9xi1", {1, 0, 1, 0, 0, 0, 0, 0, 1}},
      {"\"0x0102\"", "2x1xi8", {1, 2}},
      {"\"0x07\"", "2x2xi8", {7, 7, 7, 7}},
      {"[[1], [2]]", "2x1xi8", {1, 2}},
      {"(1.0, -2.0)", "complex<f32>", {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}},
      {"", "0x3xf32", {}},
      {"[]", "0xf32", {}},
      {"[[], []]", "2x0xf32", {}},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.elements) + " : " + row.type);
    std::vector<int> bytes;
    for (const std::byte byte : read_constant(row.elements, row.type).to_bytes())
      bytes.push_back(static_cast<int>(byte));
    CHECK(bytes == row.bytes);
  }
}

TEST_CASE("constants that MLIR refuses are refused") {
  struct Row {
    const char *elements, *type, *error;
  };
  const Row rows[] = {
      {"300", "i8", "line 2: dense<300>: '300' is out of the range of int8"},
      {"-129", "i8", "'-129' is out of the range of int8"},
      {"0x1FF", "i8", "'0x1FF' is out of the range of int8"},
      {"256", "ui8", "'256' is out of the range of uint8"},
      {"-1", "ui8", "'-1' is out of the range of uint8"},
      {"18446744073709551616", "i64", "is out of the range of int64"},
      {"-9223372036854775809", "i64", "is out of the range of int64"},
      {"0xFFFFFFFFFF", "f32", "'0xFFFFFFFFFF' is out of the range of float32"},
      {"0x1FFFF", "f16", "'0x1FFFF' is out of the range of float16"},
      {"2", "i1", "'2' is neither true nor false"},
      {"true", "i32", "'true' is no whole number"},
      {"1.5", "i32", "'1.5' is no whole number"},
      {"[[1, 2], [3]]", "2x2xi32", "a list of 1 items; expected 2, dimension 1 of i32[2,2]"},
      {"[[1, 2, 3], [4]]", "2x2xi32", "a list of 3 items; expected 2, dimension 1 of i32[2,2]"},
      {"[1, 2, 3, 4]", "2x2xi32", "an element in 1 lists; expected 2 for i32[2,2]"},
      {"[[1, 2, 3, 4]]", "2x2xi32", "a list of 4 items; expected 2"},
      {"[[1], [2]]", "2xi32", "lists nested more than 1 deep for i32[2]"},
      {"[1 2]", "2xi32", "expected ',' before '2]'"},
      {"[1, 2", "2xi32", "expected ',' before ''"},
      {"[1, 2] 3", "2xi32", "more follows its elements"},
      {"(1.0)", "complex<f32>", "expected ',' before ')'"},
      {"1.0", "complex<f32>", "expected '(' before '1.0'"},
      {"\"0x010\"", "2xi8", "expected \"0x...\", two digits a byte"},
      {"\"0x010203\"", "2xi8", "3 elements for i8[2]"},
      {"", "2xi8", "0 elements for i8[2]"},
  };
  for (const Row& row : rows) {
    CAPTURE(std::string(row.elements) + " : " + row.type);
    expect_error<IrError>([&] { read_constant(row.elements, row.type); }, "[from_stablehlo] line 2: ", row.error);
  }
}
