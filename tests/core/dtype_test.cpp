#include <string>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/types.h>

#include "tests/support/expect_error.h"

namespace lockstep {

using tests::contains;
using tests::error_text;

namespace {

constexpr DType all[] = {DType::bool_,    DType::int8,    DType::int16,   DType::int32,     DType::int64,
                         DType::uint8,    DType::uint16,  DType::uint32,  DType::uint64,    DType::float16,
                         DType::bfloat16, DType::float32, DType::float64, DType::complex64, DType::complex128};

// JAX's documented lattice of strong types, 64-bit types on. Rows and columns in the order of `all`.
constexpr const char* promotions[] = {
    //      bool i8  i16  i32  i64  u8  u16  u32  u64  f16  bf16 f32  f64  c64  c128
    "bool", "i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128",
    "i8",   "i8 i16 i32 i64 i16 i32 i64 f64 f16 bf16 f32 f64 c64 c128",
    "i16",  "i16 i16 i32 i64 i16 i32 i64 f64 f16 bf16 f32 f64 c64 c128",
    "i32",  "i32 i32 i32 i64 i32 i32 i64 f64 f16 bf16 f32 f64 c64 c128",
    "i64",  "i64 i64 i64 i64 i64 i64 i64 f64 f16 bf16 f32 f64 c64 c128",
    "u8",   "i16 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128",
    "u16",  "i32 i32 i32 i64 u16 u16 u32 u64 f16 bf16 f32 f64 c64 c128",
    "u32",  "i64 i64 i64 i64 u32 u32 u32 u64 f16 bf16 f32 f64 c64 c128",
    "u64",  "f64 f64 f64 f64 u64 u64 u64 u64 f16 bf16 f32 f64 c64 c128",
    "f16",  "f16 f16 f16 f16 f16 f16 f16 f16 f16 f32 f32 f64 c64 c128",
    "bf16", "bf16 bf16 bf16 bf16 bf16 bf16 bf16 bf16 f32 bf16 f32 f64 c64 c128",
    "f32",  "f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64 c64 c128",
    "f64",  "f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 c128 c128",
    "c64",  "c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c64 c128 c64 c128",
    "c128", "c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128",
};

}  // namespace

TEST_CASE("promotion follows JAX for every pair") {
  for (std::size_t row = 0; row < std::size(all); ++row) {
    REQUIRE(short_name(all[row]) == promotions[2 * row]);
    CHECK(promote(all[row], DType::bool_) == all[row]);
    CHECK(promote(DType::bool_, all[row]) == all[row]);
    std::string rest = std::string(promotions[2 * row + 1]) + " ";
    for (std::size_t column = 1; column < std::size(all); ++column) {
      const std::size_t space = rest.find(' ');
      CAPTURE(name(all[row]));
      CAPTURE(name(all[column]));
      CHECK(short_name(promote(all[row], all[column])) == rest.substr(0, space));
      CHECK(promote(all[row], all[column]) == promote(all[column], all[row]));
      rest = rest.substr(space + 1);
    }
    CHECK(rest.empty());
  }
}

TEST_CASE("scalars are weak") {
  struct Case {
    DType array;
    ScalarKind scalar;
    DType expected;
  };
  using enum ScalarKind;
  const Case cases[] = {
      {bool_, boolean, bool_},  {bool_, integer, int32},      {bool_, real, float32},
      {int8, boolean, int8},    {int8, integer, int8},        {int8, real, float32},
      {int64, integer, int64},  {int64, real, float32},       {uint64, integer, uint64},
      {uint8, real, float32},   {float16, boolean, float16},  {float16, integer, float16},
      {float16, real, float16}, {bfloat16, real, bfloat16},   {float32, integer, float32},
      {float64, real, float64}, {complex64, real, complex64}, {complex128, integer, complex128},
  };
  for (const Case& c : cases) {
    CAPTURE(name(c.array));
    CHECK(promote(c.array, c.scalar) == c.expected);
  }
}

TEST_CASE("keys do not promote") {
  CHECK(contains(error_text<DtypeError>([] { promote(DType::key, float32); }), "random keys do not mix with arrays"));
  CHECK(contains(error_text<DtypeError>([] { promote(DType::key, ScalarKind::real); }),
                 "random keys do not mix with numbers"));
}

TEST_CASE("facts of a dtype") {
  struct Case {
    DType dtype;
    const char* name;
    const char* short_name;
    std::size_t size;
    const char* kinds;  // s signed, u unsigned, f float, c complex
  };
  const Case cases[] = {
      {bool_, "bool", "bool", 1, ""},
      {int8, "int8", "i8", 1, "s"},
      {int16, "int16", "i16", 2, "s"},
      {int32, "int32", "i32", 4, "s"},
      {int64, "int64", "i64", 8, "s"},
      {uint8, "uint8", "u8", 1, "u"},
      {uint16, "uint16", "u16", 2, "u"},
      {uint32, "uint32", "u32", 4, "u"},
      {uint64, "uint64", "u64", 8, "u"},
      {float16, "float16", "f16", 2, "f"},
      {bfloat16, "bfloat16", "bf16", 2, "f"},
      {float32, "float32", "f32", 4, "f"},
      {float64, "float64", "f64", 8, "f"},
      {complex64, "complex64", "c64", 8, "c"},
      {complex128, "complex128", "c128", 16, "c"},
      {DType::key, "key", "key", 8, ""},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const std::string kinds = c.kinds;
    CHECK(name(c.dtype) == c.name);
    CHECK(short_name(c.dtype) == c.short_name);
    CHECK(size_of(c.dtype) == c.size);
    CHECK(is_signed_integer(c.dtype) == (kinds == "s"));
    CHECK(is_unsigned_integer(c.dtype) == (kinds == "u"));
    CHECK(is_integer(c.dtype) == (kinds == "s" || kinds == "u"));
    CHECK(is_float(c.dtype) == (kinds == "f"));
    CHECK(is_narrow_float(c.dtype) == (kinds == "f" && c.size == 2));
    CHECK(is_complex(c.dtype) == (kinds == "c"));
    CHECK(is_inexact(c.dtype) == (kinds == "f" || kinds == "c"));
    CHECK(parse_dtype(c.name) == c.dtype);
    CHECK(parse_dtype(c.short_name) == c.dtype);
  }
  CHECK(error_text<DtypeError>([] { parse_dtype("float"); }) ==
        "dtype: got \"float\", expected one of bool, int8 (i8), int16 (i16), int32 (i32), int64 (i64), uint8 (u8), "
        "uint16 (u16), uint32 (u32), uint64 (u64), float16 (f16), bfloat16 (bf16), float32 (f32), float64 (f64), "
        "complex64 (c64), complex128 (c128), key");
}

TEST_CASE("dtypes of C++ types") {
  CHECK(dtype_of<bool>() == bool_);
  CHECK(dtype_of<char>() == int8);
  CHECK(dtype_of<unsigned char>() == uint8);
  CHECK(dtype_of<short>() == int16);
  CHECK(dtype_of<int>() == int32);
  CHECK(dtype_of<long long>() == int64);
  CHECK(dtype_of<std::uint16_t>() == uint16);
  CHECK(dtype_of<unsigned>() == uint32);
  CHECK(dtype_of<std::size_t>() == uint64);
  CHECK(dtype_of<float>() == float32);
  CHECK(dtype_of<double>() == float64);
}

}  // namespace lockstep
