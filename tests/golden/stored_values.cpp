#include "tests/golden/stored_values.h"

#include <charconv>
#include <cmath>
#include <complex>
#include <fstream>
#include <span>
#include <sstream>
#include <system_error>

#include <lockstep/error.h>

namespace lockstep::tests::golden {
namespace {

bool numbers_near(double x, double y, double bound) {
  if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
  if (std::isinf(x) || std::isinf(y)) return x == y;
  return std::abs(x - y) <= bound * (1 + std::abs(y));
}

/// Numbers one after the other, a space before each.
class Numbers {
 public:
  explicit Numbers(std::string_view text) : text_(text) {}

  /// The digits are those of a float, where it is not wide.
  double real(bool wide) { return wide ? next<double>() : next<float>(); }
  /// Beyond 2^63 by its bits.
  std::int64_t integer() {
    if (text_.starts_with(" -")) return next<std::int64_t>();
    return static_cast<std::int64_t>(next<std::uint64_t>());
  }
  bool at_end() const { return text_.empty(); }

 private:
  template <class T>
  T next() {
    T value{};
    const char* end = text_.data() + text_.size();
    const auto [rest, error] = text_.empty() ? std::from_chars_result{end, std::errc::invalid_argument}
                                             : std::from_chars(text_.data() + 1, end, value);
    if (error != std::errc()) {
      throw ValueError("expected a number, found \"" + std::string(text_.substr(0, 20)) + "\"");
    }
    text_.remove_prefix(static_cast<std::size_t>(rest - text_.data()));
    return value;
  }

  std::string_view text_;
};

}  // namespace

std::map<std::string, StoredCase> read_stored(const std::filesystem::path& folder) {
  std::map<std::string, StoredCase> cases;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    StoredCase* current = nullptr;
    for (std::string line; std::getline(file, line);) {
      if (line.empty() || line[0] == '#') continue;
      if (line[0] == ' ') {
        if (current == nullptr) throw ValueError(entry.path().string() + ": a result before the first case");
        current->results.push_back(line.substr(1));
        continue;
      }
      const std::size_t space = line.rfind(' ');
      current = &cases[line.substr(0, space)];
      current->hash = line.substr(space + 1);
    }
  }
  return cases;
}

ir::ReferenceArray values_of(const std::string& line, std::string_view run, const ArrayType& type) {
  const std::string head = std::string(run) + " | " + to_string(type) + " |";
  if (!line.starts_with(head)) {
    throw ValueError("stored is " + line.substr(0, line.rfind('|')) + "; this is " + head);
  }
  Numbers numbers(std::string_view(line).substr(head.size()));
  const bool wide = type.dtype == DType::float64 || type.dtype == DType::complex128;
  ir::ReferenceArray array = ir::reference_zeros(type);
  for (std::size_t i = 0; i < static_cast<std::size_t>(type.size()); ++i) {
    if (is_float(type.dtype)) {
      array.floats()[i] = numbers.real(wide);
    } else if (is_complex(type.dtype)) {
      const double real = numbers.real(wide);
      array.complexes()[i] = {real, numbers.real(wide)};
    } else {
      array.integers()[i] = numbers.integer();
    }
  }
  if (!numbers.at_end()) throw ValueError(head + " has more values than the type");
  return array;
}

std::string hash_text(std::uint64_t hash) {
  std::ostringstream stream;
  stream << std::hex << hash;
  return stream.str();
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += digits[std::to_integer<unsigned>(byte) >> 4];
    text += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

/// jax.test_util's default_tolerance and default_gradient_tolerance, but closer where the arithmetic allows it: JAX
/// asks for 1e-15 of a float64 result and widens it op by op; its gradients are compared with differences.
double bound(bool derivative, DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return derivative ? 1e-1 : 1e-2;
    case DType::float16:
      return derivative ? 1e-2 : 1e-3;
    case DType::float32:
    case DType::complex64:
      return derivative ? 1e-5 : 1e-6;
    case DType::float64:
    case DType::complex128:
      return derivative ? 1e-10 : 1e-12;
    default:
      return 0;
  }
}

std::int64_t first_difference_within(const ir::ReferenceArray& a, const ir::ReferenceArray& b, double bound) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(a.type.size()); ++i) {
    bool equal = false;
    if (is_float(a.type.dtype)) {
      equal = numbers_near(a.floats()[i], b.floats()[i], bound);
    } else if (is_complex(a.type.dtype)) {
      equal = numbers_near(a.complexes()[i].real(), b.complexes()[i].real(), bound) &&
              numbers_near(a.complexes()[i].imag(), b.complexes()[i].imag(), bound);
    } else {
      equal = a.integers()[i] == b.integers()[i];
    }
    if (!equal) return static_cast<std::int64_t>(i);
  }
  return -1;
}

std::string element_text(const ir::ReferenceArray& array, std::int64_t at) {
  const auto i = static_cast<std::size_t>(at);
  std::ostringstream stream;
  stream.precision(17);
  if (is_float(array.type.dtype)) {
    stream << array.floats()[i];
  } else if (is_complex(array.type.dtype)) {
    stream << array.complexes()[i];
  } else {
    stream << array.integers()[i];
  }
  return stream.str();
}

}  // namespace lockstep::tests::golden
