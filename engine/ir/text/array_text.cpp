#include "engine/ir/text/array_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <complex>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/error.h>

#include "engine/core/lists.h"
#include "engine/core/narrow_floats.h"

// Laid out as numpy 2.4 does.
namespace lockstep::ir {

namespace {

std::string repeated_char(char c, std::int64_t count) {
  return std::string(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)), c);
}
std::int64_t length(const std::string& text) { return static_cast<std::int64_t>(text.size()); }

std::string scientific(double value, int precision) {
  char text[400];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::scientific, precision).ptr;
  return {text, end};
}

std::string fixed(double value, int precision) {
  char text[800];
  const auto end = std::to_chars(text, text + sizeof(text), value, std::chars_format::fixed, precision).ptr;
  return {text, end};
}

/// Digits behind the point of the scientific notation that tell the value from its neighbours of the dtype.
int shortest_precision(double value, DType dtype) {
  const auto same = [&](double other) {
    if (dtype == DType::float16) return float16_bits(other) == float16_bits(value);
    if (dtype == DType::bfloat16) return bfloat16_bits(other) == bfloat16_bits(value);
    if (dtype == DType::float64 || dtype == DType::complex128) return other == value;
    return static_cast<float>(other) == static_cast<float>(value);
  };
  for (int precision = 0; precision < 17; ++precision) {
    const std::string text = scientific(value, precision);
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (same(back)) return precision;
  }
  return 17;
}

int exponent_of(const std::string& scientific_text) {
  int exponent = 0;
  const char* first = scientific_text.data() + scientific_text.find('e') + 1;
  if (*first == '+') ++first;
  std::from_chars(first, scientific_text.data() + scientific_text.size(), exponent);
  return exponent;
}

/// The point stays, zeros behind it go.
std::string trimmed(std::string text) {
  if (text.find('.') == std::string::npos) return text + ".";
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

/// How the floats of an array are written: all alike, points below one another.
class FloatFormat {
 public:
  FloatFormat(const std::vector<double>& values, DType dtype, const PrintOptions& options, bool sign)
      : dtype_(dtype), precision_(options.precision), sign_(sign) {
    double largest = 0, smallest = INFINITY;
    for (const double x : values) {
      if (!std::isfinite(x) || x == 0) continue;
      largest = std::max(largest, std::abs(x));
      smallest = std::min(smallest, std::abs(x));
    }
    const double most = dtype == DType::float16                            ? 1e3
                        : dtype == DType::bfloat16                         ? 1e2
                        : size_of(dtype) == 4 || dtype == DType::complex64 ? 1e6
                                                                           : 1e8;
    exponential_ =
        largest >= most || (largest > 0 && !options.suppress_small && (smallest < 0.0001 || largest / smallest > 1000));
    measure(values);
  }

  std::string operator()(double x) const {
    if (!std::isfinite(x)) return padded_left(special(x), left_ + right_ + 1);
    if (exponential_) return padded_left(written(x), left_ + right_ + 1);
    const std::string text = written(x);
    const auto point = static_cast<std::int64_t>(text.find('.'));
    return repeated_char(' ', left_ - point) + text + repeated_char(' ', right_ - (length(text) - point - 1));
  }

 private:
  static std::string padded_left(const std::string& text, std::int64_t width) {
    return repeated_char(' ', width - length(text)) + text;
  }

  std::string signed_text(double x, std::string text) const { return sign_ && !std::signbit(x) ? "+" + text : text; }

  std::string special(double x) const {
    if (std::isnan(x)) return sign_ ? "+nan" : "nan";
    return x < 0 ? "-inf" : sign_ ? "+inf" : "inf";
  }

  std::string written(double x) const {
    if (!exponential_) return signed_text(x, positional(x));
    std::string text = scientific(x, digits_);
    if (digits_ == 0) text.insert(text.find('e'), ".");
    const std::size_t exponent = text.find('e') + 2;
    text.insert(exponent, repeated_char('0', exponent_digits_ - static_cast<std::int64_t>(text.size() - exponent)));
    return signed_text(x, text);
  }

  std::string positional(double x) const {
    const int digits = shortest_precision(x, dtype_);
    const int behind = digits - exponent_of(scientific(x, digits));
    return trimmed(fixed(x, std::clamp(behind, 0, precision_)));
  }

  void measure(const std::vector<double>& values) {
    bool special_values = false, negative_infinity = false;
    for (const double x : values) {
      special_values = special_values || !std::isfinite(x);
      negative_infinity = negative_infinity || (std::isinf(x) && x < 0);
      if (std::isfinite(x)) exponential_ ? measure_exponential(x) : measure_positional(x);
    }
    if (exponential_) right_ = exponent_digits_ + 2 + digits_;
    if (!special_values) return;
    const std::int64_t offset = right_ + 1;
    left_ = std::max({left_, 3 - offset, 3 + (sign_ || negative_infinity ? 1 : 0) - offset});
  }

  void measure_exponential(double x) {
    const int digits = std::min(shortest_precision(x, dtype_), precision_);
    const std::string text = scientific(x, digits);
    const std::string kept = trimmed(text.substr(0, text.find('e')));
    digits_ = std::max(digits_, static_cast<int>(kept.size() - kept.find('.') - 1));
    exponent_digits_ = std::max(exponent_digits_, length(text) - static_cast<std::int64_t>(text.find('e')) - 2);
    left_ = std::max<std::int64_t>(left_, std::signbit(x) || sign_ ? 2 : 1);
  }

  void measure_positional(double x) {
    const std::string text = written(x);
    const auto point = static_cast<std::int64_t>(text.find('.'));
    left_ = std::max(left_, point);
    right_ = std::max(right_, length(text) - point - 1);
  }

  DType dtype_;
  int precision_;
  bool sign_;
  bool exponential_ = false;
  std::int64_t left_ = 0;   // characters before the point
  std::int64_t right_ = 0;  // and behind it
  int digits_ = 0;          // exponential: behind the point
  std::int64_t exponent_digits_ = 0;
};

std::string integer_text(std::int64_t value, DType dtype) {
  if (dtype == DType::bool_) return value != 0 ? "True" : "False";
  return dtype == DType::uint64 ? std::to_string(static_cast<std::uint64_t>(value)) : std::to_string(value);
}

/// Writes nested brackets, one line a row; what does not fit is wrapped, what is too much is left out.
class ArrayWriter {
 public:
  ArrayWriter(const ReferenceArray& array, const PrintOptions& options)
      : array_(array),
        options_(options),
        strides_(row_major_strides(array.type.shape)),
        shortened_(array.type.size() > options.threshold) {
    collect(0, 0);
    const DType dtype = array.type.dtype;
    if (is_float(dtype)) {
      real_ = std::make_unique<FloatFormat>(real_values_, dtype, options, false);
    } else if (is_complex(dtype)) {
      real_ = std::make_unique<FloatFormat>(real_values_, dtype, options, false);
      imaginary_ = std::make_unique<FloatFormat>(imaginary_values_, dtype, options, true);
    }
  }

  std::string text() const {
    return array_.type.size() == 0 ? "[]" : nested(0, 0, repeated_char(' ', options_.indent + 1), options_.line_width);
  }

 private:
  /// The positions along a dimension that are written; -1 stands for those left out.
  std::vector<std::int64_t> shown(int dim) const {
    const std::int64_t extent = array_.type.shape[dim];
    const std::int64_t edge = options_.edge_items;
    std::vector<std::int64_t> list;
    for (std::int64_t i = 0; i < extent; ++i) {
      if (shortened_ && extent > 2 * edge && i == edge) {
        list.push_back(-1);
        i = extent - edge;
      }
      if (i < extent) list.push_back(i);
    }
    return list;
  }

  std::int64_t step(int dim) const { return nth(strides_, dim); }

  /// All elements that are written, in their order.
  void collect(int dim, std::int64_t offset) {
    if (dim == array_.type.shape.rank()) return add(static_cast<std::size_t>(offset));
    for (const std::int64_t i : shown(dim)) {
      if (i >= 0) collect(dim + 1, offset + i * step(dim));
    }
  }

  void add(std::size_t i) {
    const DType dtype = array_.type.dtype;
    if (is_float(dtype)) {
      real_values_.push_back(array_.floats()[i]);
    } else if (is_complex(dtype)) {
      real_values_.push_back(array_.complexes()[i].real());
      imaginary_values_.push_back(array_.complexes()[i].imag());
    } else {
      width_ = std::max(width_, length(integer_text(array_.integers()[i], dtype)));
      if (dtype == DType::bool_) width_ = 5;
    }
  }

  std::string element(std::int64_t offset) const {
    const auto i = static_cast<std::size_t>(offset);
    const DType dtype = array_.type.dtype;
    if (is_float(dtype)) return (*real_)(array_.floats()[i]);
    if (is_complex(dtype)) {
      std::string imaginary = (*imaginary_)(array_.complexes()[i].imag());
      imaginary.insert(imaginary.find_last_not_of(' ') + 1, "j");
      return (*real_)(array_.complexes()[i].real()) + imaginary;
    }
    const std::string text = integer_text(array_.integers()[i], dtype);
    return repeated_char(' ', width_ - length(text)) + text;
  }

  std::string nested(int dim, std::int64_t offset, const std::string& indent, std::int64_t width) const {
    const int left = array_.type.shape.rank() - dim;
    const std::string text = left == 1 ? row(dim, offset, indent, width) : rows(dim, offset, indent, width, left);
    return "[" + text.substr(indent.size()) + "]";
  }

  std::string rows(int dim, std::int64_t offset, const std::string& indent, std::int64_t width, int left) const {
    std::string text;
    const std::string separator = bare_separator() + repeated_char('\n', left - 1);
    for (const std::int64_t i : shown(dim)) {
      if (!text.empty()) text += separator;
      text += indent + (i < 0 ? "..." : nested(dim + 1, offset + i * step(dim), indent + " ", width - 1));
    }
    return text;
  }

  std::string row(int dim, std::int64_t offset, const std::string& indent, std::int64_t width) const {
    const std::int64_t most = width - std::max<std::int64_t>(length(bare_separator()), 1);
    std::string text, line = indent;
    bool first = true;
    for (const std::int64_t i : shown(dim)) {
      if (!first) line += options_.separator;
      first = false;
      const std::string word = i < 0 ? "..." : element(offset + i * step(dim));
      if (length(line) + length(word) > most && line.size() > indent.size()) {
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
        line = indent;
      }
      line += word;
    }
    return text + line;
  }

  std::string bare_separator() const {
    std::string text = options_.separator;
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  }

  const ReferenceArray& array_;
  const PrintOptions& options_;
  std::vector<std::int64_t> strides_;
  bool shortened_;
  std::vector<double> real_values_;
  std::vector<double> imaginary_values_;
  std::unique_ptr<FloatFormat> real_;
  std::unique_ptr<FloatFormat> imaginary_;
  std::int64_t width_ = 0;
};

/// A number alone, as Python prints one.
std::string plain_number(double x, DType dtype) {
  if (!std::isfinite(x)) return std::isnan(x) ? "nan" : x < 0 ? "-inf" : "inf";
  const int digits = shortest_precision(x, dtype);
  const std::string text = scientific(x, digits);
  const int exponent = exponent_of(text);
  if (x != 0 && (exponent < -4 || exponent >= 16)) return text;
  return fixed(x, std::max(digits - exponent, 1));
}

std::string scalar_text(const ReferenceArray& array) {
  const DType dtype = array.type.dtype;
  if (is_float(dtype)) return plain_number(array.floats()[0], dtype);
  if (!is_complex(dtype)) return integer_text(array.integers()[0], dtype);
  const auto without_zero = [&](double x) {
    const std::string text = plain_number(x, dtype);
    return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
  };
  const std::complex<double> z = array.complexes()[0];
  const std::string imaginary = without_zero(z.imag());
  if (z.real() == 0 && !std::signbit(z.real())) return imaginary + "j";
  return "(" + without_zero(z.real()) + (imaginary.starts_with('-') ? "" : "+") + imaginary + "j)";
}

/// Keys as their two words.
ReferenceArray words_of(const ReferenceArray& keys) {
  ArrayType type{DType::uint32, keys.type.shape, {}};
  type.shape.append(2);
  ReferenceArray words = reference_zeros(type);
  for (std::size_t i = 0; i < keys.integers().size(); ++i) {
    const auto key = static_cast<std::uint64_t>(keys.integers()[i]);
    words.integers()[2 * i] = static_cast<std::int64_t>(key >> 32);
    words.integers()[2 * i + 1] = static_cast<std::int64_t>(key & 0xffffffffU);
  }
  return words;
}

}  // namespace

std::string array_text(const ReferenceArray& array, const PrintOptions& options) {
  if (array.type.dtype == DType::key) return array_text(words_of(array), options);
  return array.type.shape.rank() == 0 ? scalar_text(array) : ArrayWriter(array, options).text();
}

}  // namespace lockstep::ir
