#include <algorithm>
#include <charconv>
#include <cstring>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/core/narrow_floats.h"
#include "engine/exchange/stablehlo/importer.h"
#include "engine/exchange/stablehlo/mlir.h"

// Elements of `dense<...>`: one for all, nested lists, or the bytes as hexadecimal digits in quotes. Floats stand as decimal
// numbers or, behind 0x, as their bits. They are written to memory here, since ops on arrays would become a part of the
// program that is being traced.

namespace lockstep::exchange {
namespace {

class Elements {
 public:
  Elements(std::string_view text, const ArrayType& type, std::int64_t line)
      : text_(text),
        type_(type),
        part_(type.dtype == DType::complex64    ? DType::float32
              : type.dtype == DType::complex128 ? DType::float64
                                                : type.dtype),
        line_(line) {}

  /// All of them, or one where `text` has one for all.
  std::vector<std::byte> bytes() const {
    const std::vector<std::byte> found = text_.starts_with('"') ? digits() : numbers();
    const std::size_t one = size_of(type_.dtype);
    const auto count = static_cast<std::size_t>(type_.shape.size());
    const bool is_splat = found.size() == one && !text_.starts_with('[');
    if (found.size() != one * count && !is_splat) {
      fail(fmt::format("{} elements for {}", found.size() / one, to_string(type_)));
    }
    return found;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw IrError(fmt::format("[from_stablehlo] line {}: dense<{}>: {}", line_, text_.substr(0, 40), what));
  }

  std::vector<std::byte> numbers() const {
    std::vector<std::byte> found;
    constexpr std::string_view marks = "[](), \n\t";
    for (std::size_t at = text_.find_first_not_of(marks); at != std::string_view::npos;) {
      const std::size_t end = std::min(text_.find_first_of(marks, at), text_.size());
      append(found, text_.substr(at, end - at));
      at = text_.find_first_not_of(marks, end);
    }
    return found;
  }

  std::vector<std::byte> digits() const {
    if (!text_.starts_with("\"0x") || text_.size() < 4) fail("expected \"0x...\"");
    std::vector<std::byte> found;
    for (std::size_t i = 3; i + 2 < text_.size(); i += 2) {
      std::uint8_t byte = 0;
      if (std::from_chars(&text_[i], &text_[i] + 2, byte, 16).ptr != &text_[i] + 2) fail("no hexadecimal digits");
      found.push_back(static_cast<std::byte>(byte));
    }
    return type_.dtype == DType::bool_ ? booleans(found) : found;
  }

  /// A byte each, of which all bits may be set; MLIR before 2025 wrote eight to a byte, the lowest bit first.
  std::vector<std::byte> booleans(const std::vector<std::byte>& digits) const {
    const auto count = static_cast<std::size_t>(type_.shape.size());
    const bool packed = digits.size() != count && digits.size() == (count + 7) / 8;
    std::vector<std::byte> found(packed ? count : digits.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::byte bit = packed ? digits[i / 8] >> (i % 8) & std::byte{1} : digits[i];
      found[i] = bit == std::byte{0} ? std::byte{0} : std::byte{1};
    }
    return found;
  }

  template <class T>
  T parsed(std::string_view word, const char* what) const {
    T value{};
    if constexpr (std::is_floating_point_v<T>) {
      if (std::from_chars(word.data(), word.data() + word.size(), value).ptr == word.data() + word.size()) return value;
    } else {
      const int base = word.starts_with("0x") ? 16 : 10;
      const char* begin = word.data() + (base == 16 ? 2 : 0);
      if (std::from_chars(begin, word.data() + word.size(), value, base).ptr == word.data() + word.size()) return value;
    }
    fail("'" + std::string(word.substr(0, 20)) + "' is no " + what);
  }

  template <class T>
  void put(std::vector<std::byte>& found, T value) const {
    const std::size_t size = std::min(sizeof(T), size_of(part_));
    const std::size_t before = found.size();
    found.resize(before + size);
    std::memcpy(found.data() + before, &value, size);
  }

  void append(std::vector<std::byte>& found, std::string_view word) const {
    if (part_ == DType::bool_) {
      if (word != "true" && word != "false")
        fail("'" + std::string(word.substr(0, 20)) + "' is neither true nor false");
      put(found, static_cast<std::uint8_t>(word == "true" ? 1 : 0));
    } else if (is_integer(part_)) {
      word.starts_with('-') ? put(found, parsed<std::int64_t>(word, "whole number"))
                            : put(found, parsed<std::uint64_t>(word, "whole number"));
    } else if (word.starts_with("0x")) {
      put(found, parsed<std::uint64_t>(word, "number"));
    } else if (part_ == DType::float64) {
      put(found, parsed<double>(word, "number"));
    } else {
      const float value = parsed<float>(word, "number");
      if (part_ == DType::float32) put(found, value);
      if (part_ == DType::float16) put(found, float16_bits(value));
      if (part_ == DType::bfloat16) put(found, bfloat16_bits(value));
    }
  }

  std::string_view text_;
  ArrayType type_;
  DType part_;  ///< Of which an element is one, or two.
  std::int64_t line_;
};

template <class T>
T read_as(const std::vector<std::byte>& bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::int64_t as_integer(const std::vector<std::byte>& bytes, DType dtype) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data(), bytes.size());
  const int shift = static_cast<int>(64 - 8 * bytes.size());
  return is_unsigned_integer(dtype) ? static_cast<std::int64_t>(value)
                                    : static_cast<std::int64_t>(value << shift) >> shift;
}

double as_real(const std::vector<std::byte>& bytes, DType dtype) {
  if (dtype == DType::float64) return read_as<double>(bytes);
  if (dtype == DType::float32) return static_cast<double>(read_as<float>(bytes));
  const auto bits = read_as<std::uint16_t>(bytes);
  return static_cast<double>(dtype == DType::float16 ? float16_value(bits) : bfloat16_value(bits));
}

}  // namespace

Axes dense_integers(const mlir::Attribute& value, std::int64_t line) {
  if (!is_integer(value.type.dtype)) throw IrError(fmt::format("[from_stablehlo] line {}: no whole numbers", line));
  const std::vector<std::byte> bytes = Elements(value.text, value.type, line).bytes();
  const std::size_t one = size_of(value.type.dtype);
  Axes read;
  for (std::size_t i = 0; i + one <= bytes.size(); i += one) {
    const auto at = bytes.begin() + static_cast<std::ptrdiff_t>(i);
    read.push_back(as_integer({at, at + static_cast<std::ptrdiff_t>(one)}, value.type.dtype));
  }
  return read;
}

std::optional<double> dense_float(const mlir::Attribute& value, const ArrayType& type, std::int64_t line) {
  if (!is_float(type.dtype)) return std::nullopt;
  const std::vector<std::byte> bytes = Elements(value.text, type, line).bytes();
  return bytes.size() == size_of(type.dtype) ? std::optional(as_real(bytes, type.dtype)) : std::nullopt;
}

Array dense_constant(const mlir::Attribute& value, const ArrayType& type, std::int64_t line) {
  const std::vector<std::byte> bytes = Elements(value.text, type, line).bytes();
  const std::size_t one = size_of(type.dtype);
  const auto count = static_cast<std::size_t>(type.shape.size());
  if (bytes.size() != one || count == 0) {
    if (count > 0 || bytes.empty()) return from_bytes({type.dtype, type.shape, {}}, bytes);
    return zeros(type.shape, type.dtype);
  }
  const Attrs attrs = {{"dtype", type.dtype}, {"shape", type.shape.to_vector()}};
  if (type.dtype == DType::bool_) return lax::full({}, attrs.with("value", bytes[0] != std::byte{0}))[0];
  if (is_integer(type.dtype) && as_integer(bytes, type.dtype) >= (type.dtype == DType::uint64 ? 0 : INT64_MIN)) {
    return lax::full({}, attrs.with("value", as_integer(bytes, type.dtype)))[0];
  }
  if (is_float(type.dtype)) return lax::full({}, attrs.with("value", as_real(bytes, type.dtype)))[0];
  return broadcast_to(from_bytes({type.dtype, {}, {}}, bytes), type.shape);
}

}  // namespace lockstep::exchange
