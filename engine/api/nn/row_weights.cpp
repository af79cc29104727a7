// What weights of rows may be.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/weighted.h>

#include "engine/core/narrow_floats.h"
#include "engine/ir/primitive.h"
#include "engine/trace/array_state.h"

namespace lockstep::detail {
namespace {

bool is_weight(double x) { return x >= 0 && x < std::numeric_limits<double>::infinity(); }

/// The first element that is no weight, as a number, and its row.
struct Unfit {
  std::size_t row;
  double value;
};

template <class Element, class ToNumber>
std::optional<Unfit> first_unfit(const void* data, std::size_t count, const ToNumber& number) {
  const std::span elements(static_cast<const Element*>(data), count);
  const auto found = std::ranges::find_if_not(elements, [&](Element x) { return is_weight(number(x)); });
  if (found == elements.end()) return std::nullopt;
  return Unfit{static_cast<std::size_t>(found - elements.begin()), number(*found)};
}

template <class Number>
std::optional<Unfit> first_unfit(const void* data, std::size_t count) {
  return first_unfit<Number>(data, count, [](Number x) { return static_cast<double>(x); });
}

std::optional<Unfit> first_unfit(DType dtype, const void* data, std::size_t count) {
  switch (dtype) {
    case DType::float32:
      return first_unfit<float>(data, count);
    case DType::float64:
      return first_unfit<double>(data, count);
    case DType::bfloat16:
      return first_unfit<std::uint16_t>(data, count, [](std::uint16_t bits) -> double { return bfloat16_value(bits); });
    case DType::float16:
      return first_unfit<std::uint16_t>(data, count, [](std::uint16_t bits) -> double { return float16_value(bits); });
    case DType::int8:
      return first_unfit<std::int8_t>(data, count);
    case DType::int16:
      return first_unfit<std::int16_t>(data, count);
    case DType::int32:
      return first_unfit<std::int32_t>(data, count);
    case DType::int64:
      return first_unfit<std::int64_t>(data, count);
    default:
      return std::nullopt;
  }
}

}  // namespace

void expect_row_weights(std::string_view who, const Array& weight) {
  if (!weight.has_value() || weight.is_traced()) return;
  const backend::Buffer& buffer = *weight.state()->buffer;
  if (buffer.device().kind != DeviceKind::cpu) return;
  const auto& cut = weight.state()->cut;
  const auto count = static_cast<std::size_t>(cut == nullptr ? weight.size() : cut->part.size());
  const std::optional<Unfit> unfit = first_unfit(weight.dtype(), buffer.data(), count);
  if (!unfit) return;
  throw DataError(fmt::format(
      "[{}] the weight of row {}{} is {}; expected finite numbers of 0 or more; give 0 to a row that shall not count",
      who, unfit->row, cut == nullptr ? "" : " of this process's part", unfit->value));
}

}  // namespace lockstep::detail
