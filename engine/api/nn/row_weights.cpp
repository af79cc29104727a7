// What weights of rows may be.
#include <algorithm>
#include <limits>
#include <span>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/weighted.h>

#include "engine/ir/primitive.h"
#include "engine/trace/array_state.h"

namespace lockstep::detail {
namespace {

/// The first number that is no weight, or as many as there are.
template <class Number>
std::size_t first_unfit(const void* data, std::size_t count) {
  const std::span numbers(static_cast<const Number*>(data), count);
  constexpr Number end = std::numeric_limits<Number>::infinity();
  return static_cast<std::size_t>(
      std::find_if_not(numbers.begin(), numbers.end(), [](Number x) { return x >= 0 && x < end; }) - numbers.begin());
}

}  // namespace

void expect_row_weights(std::string_view who, const Array& weight) {
  if (!weight.has_value() || weight.is_traced() || weight.state()->cut != nullptr) return;
  const backend::Buffer& buffer = *weight.state()->buffer;
  if (buffer.device().kind != DeviceKind::cpu) return;
  const auto count = static_cast<std::size_t>(weight.size());
  const bool is_float32 = weight.dtype() == DType::float32;
  if (!is_float32 && weight.dtype() != DType::float64) return;
  const std::size_t row =
      is_float32 ? first_unfit<float>(buffer.data(), count) : first_unfit<double>(buffer.data(), count);
  if (row == count) return;
  const double given = is_float32 ? static_cast<double>(static_cast<const float*>(buffer.data())[row])
                                  : static_cast<const double*>(buffer.data())[row];
  throw DataError(fmt::format(
      "[{}] the weight of row {} is {}; expected finite numbers of 0 or more; give 0 to a row that shall not count",
      who, row, given));
}

}  // namespace lockstep::detail
