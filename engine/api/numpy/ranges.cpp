#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/manipulation.h>

#include "engine/api/numpy/number_fits.h"
#include "engine/api/numpy/operands.h"
#include "engine/core/checked_sizes.h"
#include "engine/core/lists.h"

namespace lockstep {

namespace api {

void check_number_fits(std::string_view op, std::int64_t number, DType dtype) {
  if (!is_integer(dtype) || dtype == int64) return;
  const bool is_signed = is_signed_integer(dtype);
  const int bits = static_cast<int>(size_of(dtype)) * 8 - (is_signed ? 1 : 0);
  const std::int64_t most = bits >= 63 ? INT64_MAX : (std::int64_t{1} << bits) - 1;
  if (number >= (is_signed ? -most - 1 : 0) && number <= most) return;
  throw ValueError(fmt::format("{}: {} does not fit {}; expected a dtype that holds all numbers; ask for a wider one",
                               op, number, name(dtype)));
}

}  // namespace api

namespace {

template <class Number>
void check_numbers(Number step, DType dtype) {
  if (step == 0) throw ValueError("arange: the step must not be 0");
  if (dtype == bool_) throw DtypeError("arange: bool has no numbers in order; write arange(n) != 0");
}

/// Throws ValueError for a real number whose whole part the integer dtype does not hold.
void check_number(double value, DType dtype) {
  constexpr double end = 9223372036854775808.0;  // 2^63
  const bool is_large = dtype == uint64 && value >= end && value < 2 * end;
  if (value >= -end && value < end) return api::check_number_fits("arange", static_cast<std::int64_t>(value), dtype);
  if (is_large) return;
  throw ValueError(fmt::format("arange: {} does not fit {}; ask for a float dtype", value, name(dtype)));
}

/// Positions on and below (above) a diagonal, counted by their rows.
std::pair<Array, Array> triangle_indices(std::int64_t rows, std::int64_t columns, std::int64_t k, bool lower) {
  std::vector<std::int32_t> row_numbers, column_numbers;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      if (lower ? j > i + k : j < i + k) continue;
      row_numbers.push_back(static_cast<std::int32_t>(i));
      column_numbers.push_back(static_cast<std::int32_t>(j));
    }
  }
  return {array(row_numbers), array(column_numbers)};
}

}  // namespace

namespace detail {

Array arange(std::int64_t start, std::int64_t stop, std::int64_t step, const std::optional<DType>& given) {
  const DType dtype = given.value_or(int32);
  check_numbers(step, dtype);
  // Distance and stride of 64-bit numbers fit 64 bits without a sign.
  const bool empty = step > 0 ? stop <= start : stop >= start;
  const auto low = static_cast<std::uint64_t>(step > 0 ? start : stop);
  const auto high = static_cast<std::uint64_t>(step > 0 ? stop : start);
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const std::uint64_t wide = empty ? 0 : (high - low - 1) / stride + 1;
  const auto count = static_cast<std::int64_t>(std::min<std::uint64_t>(wide, most_bytes + 1));
  check_size("arange", {dtype, Shape{count}, {}});
  if (count > 0 && is_integer(dtype)) {
    const auto last =
        static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + (wide - 1) * static_cast<std::uint64_t>(step));
    api::check_number_fits("arange", start, dtype);
    api::check_number_fits("arange", last, dtype);
    // Counts, steps and distances may not fit what the numbers do.
    const bool is_narrow =
        dtype == int32 && std::in_range<std::int32_t>(step) && std::in_range<std::int32_t>(count - 1);
    return convert(lockstep::arange(count, is_narrow ? int32 : int64) * step + start, dtype);
  }
  const Array numbers = lockstep::arange(count, float64);
  return convert(numbers * step + start, dtype);
}

Array arange_real(double start, double stop, double step, const std::optional<DType>& given) {
  const DType dtype = given.value_or(float32);
  check_numbers(step, dtype);
  if (!std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step)) {
    throw ValueError(fmt::format("arange: start, stop and step must be finite, got {}, {} and {}", start, stop, step));
  }
  constexpr double too_many = 2 * static_cast<double>(most_bytes);
  const double count = std::clamp(std::ceil((stop - start) / step), 0.0, too_many);
  if (count > 0 && is_integer(dtype)) {
    check_number(start, dtype);
    check_number(start + (count - 1) * step, dtype);
  }
  return convert(lockstep::arange(static_cast<std::int64_t>(count), float64) * step + start, dtype);
}

}  // namespace detail

Array linspace(double start, double stop, std::int64_t num, bool endpoint, DType dtype) {
  if (num < 0) throw ValueError(fmt::format("linspace: num must not be negative, got {}", num));
  if (!is_float(dtype)) {
    throw DtypeError(fmt::format("linspace: the dtype must be a float one, got {}; convert() the result", name(dtype)));
  }
  const std::int64_t intervals = endpoint ? num - 1 : num;
  const Array number = arange(num, float64);
  const double step = intervals > 0 ? (stop - start) / static_cast<double>(intervals) : 0;
  const Array points = number * step + start;
  // The end is met exactly.
  if (!endpoint || num < 2) return convert(points, dtype);
  return convert(where(equal(number, static_cast<double>(num - 1)), stop, points), dtype);
}

Array logspace(double start, double stop, std::int64_t num, bool endpoint, double base, DType dtype) {
  return convert(pow(base, linspace(start, stop, num, endpoint, float64)), dtype);
}

Arrays meshgrid(const ArrayOperands& vectors, std::string_view indexing) {
  if (indexing != "xy" && indexing != "ij") {
    throw ValueError(fmt::format("meshgrid: indexing must be \"xy\" or \"ij\", got \"{}\"", indexing));
  }
  const bool swapped = indexing == "xy" && vectors.size() > 1;
  const auto dim_of = [&](std::size_t i) { return static_cast<int>(swapped && i < 2 ? 1 - i : i); };
  Axes shape(vectors.size());
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    if (vectors[i].ndim() > 1) {
      throw ShapeError(fmt::format("meshgrid: needs vectors, got {}", to_string(vectors[i].shape())));
    }
    nth(shape, dim_of(i)) = vectors[i].size();
  }
  Arrays grids;
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    Axes column(vectors.size(), 1);
    nth(column, dim_of(i)) = vectors[i].size();
    grids.push_back(broadcast_to(reshape(vectors[i], column), Shape(shape)));
  }
  return grids;
}

namespace {

void expect_samples(std::string_view name, std::int64_t n) {
  if (n < 0) throw ValueError(fmt::format("{}: the number of samples is {}; give 0 or more", name, n));
}

/// The sum of terms[k] cos(2 pi k i / (n - 1)) for i below n.
Array cosine_window(std::string_view name, std::int64_t n, std::initializer_list<double> terms, DType dtype) {
  expect_samples(name, n);
  if (n == 1) return full({1}, 1.0, dtype);
  const Array angle = arange(n, float64) * (2 * std::numbers::pi / static_cast<double>(n - 1));
  Array sum = zeros({n}, float64);
  double k = 0;
  for (const double term : terms) sum = sum + term * cos(k++ * angle);
  return convert(sum, dtype);
}

}  // namespace

Array hanning(std::int64_t n, DType dtype) { return cosine_window("hanning", n, {0.5, -0.5}, dtype); }
Array hamming(std::int64_t n, DType dtype) { return cosine_window("hamming", n, {0.54, -0.46}, dtype); }
Array blackman(std::int64_t n, DType dtype) { return cosine_window("blackman", n, {0.42, -0.5, 0.08}, dtype); }

Array bartlett(std::int64_t n, DType dtype) {
  expect_samples("bartlett", n);
  if (n == 1) return full({1}, 1.0, dtype);
  const Array place = arange(n, float64) * (2.0 / static_cast<double>(n - 1));
  return convert(1.0 - abs(place - 1.0), dtype);
}

Array tri(std::int64_t rows, std::int64_t columns, std::int64_t k, DType dtype) {
  const Shape shape{rows, columns};
  return convert(less_equal(iota(shape, 1), iota(shape, 0) + k), dtype);
}

std::pair<Array, Array> tril_indices(std::int64_t rows, std::int64_t k, const std::optional<std::int64_t>& columns) {
  return triangle_indices(rows, columns.value_or(rows), k, true);
}

std::pair<Array, Array> triu_indices(std::int64_t rows, std::int64_t k, const std::optional<std::int64_t>& columns) {
  return triangle_indices(rows, columns.value_or(rows), k, false);
}

}  // namespace lockstep
