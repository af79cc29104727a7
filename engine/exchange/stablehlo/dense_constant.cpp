#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <system_error>
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

  /// An element, or lists in lists with as many items as the type has extents.
  std::vector<std::byte> numbers() const {
    std::vector<std::byte> found;
    std::size_t at = 0;
    if (next(at) != '\0') list_or_element(found, at, 0);
    if (next(at) != '\0') fail("more follows its elements");
    return found;
  }
  /// The character at the next place that is no white space, '\0' at the end.
  char next(std::size_t& at) const {
    at = std::min(text_.find_first_not_of(" \n\t\r", at), text_.size());
    return at < text_.size() ? text_[at] : '\0';
  }
  void take(std::size_t& at, char mark) const {
    if (next(at) != mark) fail(fmt::format("expected '{}' before '{}'", mark, text_.substr(at, 20)));
    ++at;
  }
  void list_or_element(std::vector<std::byte>& found, std::size_t& at, int depth) const {
    if (next(at) != '[') {
      if (depth != 0 && depth != type_.shape.rank()) {
        fail(fmt::format("an element in {} lists; expected {} for {}", depth, type_.shape.rank(), to_string(type_)));
      }
      return element(found, at);
    }
    if (depth == type_.shape.rank()) {
      fail(fmt::format("lists nested more than {} deep for {}", depth, to_string(type_)));
    }
    std::int64_t items = 0;
    for (take(at, '['); next(at) != ']'; ++items) {
      if (items > 0) take(at, ',');
      list_or_element(found, at, depth + 1);
    }
    take(at, ']');
    if (items != type_.shape[depth]) {
      fail(fmt::format("a list of {} items; expected {}, dimension {} of {}", items, type_.shape[depth], depth,
                       to_string(type_)));
    }
  }
  void element(std::vector<std::byte>& found, std::size_t& at) const {
    if (!is_complex(type_.dtype)) return append(found, word(at));
    take(at, '(');
    append(found, word(at));
    take(at, ',');
    append(found, word(at));
    take(at, ')');
  }
  std::string_view word(std::size_t& at) const {
    next(at);
    const std::size_t begin = at;
    at = std::min(text_.find_first_of("[](), \n\t\r", at), text_.size());
    return text_.substr(begin, at - begin);
  }

  std::vector<std::byte> digits() const {
    if (!text_.starts_with("\"0x") || text_.size() < 4 || text_.size() % 2 != 0)
      fail("expected \"0x...\", two digits a byte");
    std::vector<std::byte> found;
    for (std::size_t i = 3; i + 2 < text_.size(); i += 2) {
      std::uint8_t byte = 0;
      if (std::from_chars(&text_[i], &text_[i] + 2, byte, 16).ptr != &text_[i] + 2) fail("no hexadecimal digits");
      found.push_back(static_cast<std::byte>(byte));
    }
    return type_.dtype == DType::bool_ ? booleans(found) : found;
  }

  /// A byte each, of which all bits may be set, or one for all; MLIR before 2025 wrote eight to a byte, the lowest bit
  /// first.
  std::vector<std::byte> booleans(const std::vector<std::byte>& digits) const {
    const auto count = static_cast<std::size_t>(type_.shape.size());
    const bool packed = digits.size() > 1 && digits.size() != count && digits.size() == (count + 7) / 8;
    std::vector<std::byte> found(packed ? count : digits.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::byte bit = packed ? digits[i / 8] >> (i % 8) & std::byte{1} : digits[i];
      found[i] = bit == std::byte{0} ? std::byte{0} : std::byte{1};
    }
    return found;
  }

  [[noreturn]] void fail_at(std::string_view word, const std::string& what) const {
    fail("'" + std::string(word.substr(0, 20)) + "' is " + what);
  }
  [[noreturn]] void fail_range(std::string_view word) const {
    fail_at(word, "out of the range of " + std::string(name(part_)));
  }

  /// The digits of a whole number without its sign.
  std::uint64_t magnitude(std::string_view word, std::string_view digits, const char* what) const {
    const int base = digits.starts_with("0x") ? 16 : 10;
    if (base == 16) digits.remove_prefix(2);
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (end != digits.data() + digits.size() || digits.empty()) fail_at(word, std::string("no ") + what);
    if (error == std::errc::result_out_of_range) fail_range(word);
    return value;
  }

  /// As MLIR reads it: a number without a sign may have all bits of a signed element (255 : i8 is -1).
  std::uint64_t whole_number(std::string_view word) const {
    const auto bits = part_ == DType::bool_ ? 1 : static_cast<int>(8 * size_of(part_));
    const bool negative = word.starts_with('-');
    const std::uint64_t value = magnitude(word, negative ? word.substr(1) : word, "whole number");
    const std::uint64_t top = std::uint64_t{1} << (bits - 1);
    if (negative && value > 0 && is_unsigned_integer(part_)) fail_range(word);
    if (negative ? value > top : value > top + (top - 1)) fail_range(word);
    return negative ? ~value + 1 : value;
  }

  /// The nearest double; beyond the largest it is infinity, as in MLIR.
  double real(std::string_view word) const {
    double value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (end != word.data() + word.size() || word.empty()) fail_at(word, "no number");
    if (error != std::errc::result_out_of_range) return value;
    const std::size_t exponent = word.find_first_of("eE");
    const bool is_small = exponent != std::string_view::npos && word.substr(exponent + 1).starts_with('-');
    return std::copysign(is_small ? 0.0 : std::numeric_limits<double>::infinity(), word.starts_with('-') ? -1.0 : 1.0);
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
      const bool is_number = word == "0" || word == "1" || word == "-1";
      if (!is_number && word != "true" && word != "false") fail_at(word, "neither true nor false");
      return put(found, static_cast<std::uint8_t>(word == "false" || word == "0" ? 0 : 1));
    }
    if (is_integer(part_)) return put(found, whole_number(word));
    if (word.starts_with("0x")) {
      const std::uint64_t bits = magnitude(word, word, "number");
      if (size_of(part_) < 8 && bits >> (8 * size_of(part_)) != 0) fail_range(word);
      return put(found, bits);
    }
    const double value = real(word);
    if (part_ == DType::float64) put(found, value);
    if (part_ == DType::float32) put(found, static_cast<float>(value));
    if (part_ == DType::float16) put(found, float16_bits(value));
    if (part_ == DType::bfloat16) put(found, bfloat16_bits(value));
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
  const std::int64_t count = value.type.shape.size();
  if (read.size() == 1 && count > 1) {  // dense<1> : tensor<2xi64>
    constexpr std::int64_t most_integers = 10000;
    if (count > most_integers)
      throw IrError(fmt::format("[from_stablehlo] line {}: {} whole numbers in an attribute", line, count));
    read.resize(static_cast<std::size_t>(count), read[0]);
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
