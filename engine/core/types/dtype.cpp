#include <algorithm>
#include <array>

#include <lockstep/error.h>
#include <lockstep/types.h>

#include "engine/core/quoting.h"

namespace lockstep {

namespace {

enum class Class : std::uint8_t { boolean, signed_integer, unsigned_integer, real, complex, key };

struct Facts {
  std::string_view name;
  std::string_view short_name;
  std::size_t size;
  Class kind;
};

constexpr std::array<Facts, 16> facts_table{{
    {"bool", "bool", 1, Class::boolean},
    {"int8", "i8", 1, Class::signed_integer},
    {"int16", "i16", 2, Class::signed_integer},
    {"int32", "i32", 4, Class::signed_integer},
    {"int64", "i64", 8, Class::signed_integer},
    {"uint8", "u8", 1, Class::unsigned_integer},
    {"uint16", "u16", 2, Class::unsigned_integer},
    {"uint32", "u32", 4, Class::unsigned_integer},
    {"uint64", "u64", 8, Class::unsigned_integer},
    {"float16", "f16", 2, Class::real},
    {"bfloat16", "bf16", 2, Class::real},
    {"float32", "f32", 4, Class::real},
    {"float64", "f64", 8, Class::real},
    {"complex64", "c64", 8, Class::complex},
    {"complex128", "c128", 16, Class::complex},
    {"key", "key", 8, Class::key},
}};

[[noreturn]] void refuse_dtype(std::size_t number) {
  throw DtypeError("dtype: there is none with the number " + std::to_string(number) +
                   "; expected one of the enumeration, " + "0 to " + std::to_string(facts_table.size() - 1));
}

const Facts& facts(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  if (number >= facts_table.size()) refuse_dtype(number);
  return facts_table[number];
}

DType signed_of_size(std::size_t bytes) {
  return bytes == 1 ? DType::int8 : bytes == 2 ? DType::int16 : bytes == 4 ? DType::int32 : DType::int64;
}

DType promote_integers(DType a, DType b) {
  if (facts(a).kind == facts(b).kind) return size_of(a) >= size_of(b) ? a : b;
  const DType with_sign = is_signed_integer(a) ? a : b;
  const DType without_sign = is_signed_integer(a) ? b : a;
  if (without_sign == DType::uint64) return DType::float64;
  return signed_of_size(std::max(size_of(with_sign), 2 * size_of(without_sign)));
}

DType promote_floats(DType a, DType b) {
  if (a == b) return a;
  if (is_narrow_float(a) && is_narrow_float(b)) return DType::float32;
  return size_of(a) > size_of(b) ? a : b;
}

DType complex_of(DType dtype) {
  return dtype == DType::float64 || dtype == DType::complex128 ? DType::complex128 : DType::complex64;
}

}  // namespace

std::size_t size_of(DType dtype) { return facts(dtype).size; }
bool is_float(DType dtype) { return facts(dtype).kind == Class::real; }
bool is_narrow_float(DType dtype) { return is_float(dtype) && size_of(dtype) < sizeof(float); }
bool is_complex(DType dtype) { return facts(dtype).kind == Class::complex; }
bool is_inexact(DType dtype) { return is_float(dtype) || is_complex(dtype); }
bool is_signed_integer(DType dtype) { return facts(dtype).kind == Class::signed_integer; }
bool is_unsigned_integer(DType dtype) { return facts(dtype).kind == Class::unsigned_integer; }
bool is_integer(DType dtype) { return is_signed_integer(dtype) || is_unsigned_integer(dtype); }
std::string_view name(DType dtype) { return facts(dtype).name; }
std::string_view short_name(DType dtype) { return facts(dtype).short_name; }

DType parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < facts_table.size(); ++i) {
    if (text == facts_table[i].name || text == facts_table[i].short_name) return static_cast<DType>(i);
  }
  std::string names;
  for (const Facts& entry : facts_table) {
    names += names.empty() ? "" : ", ";
    names += entry.name;
    if (entry.name != entry.short_name) names += " (" + std::string(entry.short_name) + ")";
  }
  throw DtypeError("dtype: got " + quoted(text) + ", expected one of " + names);
}

DType promote(DType a, DType b) {
  if (a == DType::key || b == DType::key) {
    throw DtypeError("promote: got " + std::string(name(a)) + " and " + std::string(name(b)) +
                     ", but random keys do not mix with arrays; draw numbers from the key first (random::uniform, "
                     "random::bits)");
  }
  if (a == DType::bool_ || a == b) return b;
  if (b == DType::bool_) return a;
  if (is_complex(a) || is_complex(b)) {
    const bool wide = complex_of(a) == DType::complex128 || complex_of(b) == DType::complex128;
    return wide ? DType::complex128 : DType::complex64;
  }
  if (is_float(a) && is_float(b)) return promote_floats(a, b);
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  return promote_integers(a, b);
}

DType promote(DType a, ScalarKind scalar) {
  if (a == DType::key) {
    throw DtypeError(
        "promote: got a key and a number, but random keys do not mix with numbers; draw numbers from the "
        "key first (random::uniform, random::bits)");
  }
  if (scalar == ScalarKind::real && !is_inexact(a)) return DType::float32;
  if (scalar == ScalarKind::integer && a == DType::bool_) return DType::int32;
  return a;
}

}  // namespace lockstep
