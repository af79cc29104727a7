#include "backends/jit/spread_operands.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep::backend::jit {
namespace {

/// Rows from that length on are left as they are.
constexpr std::int64_t long_row = 32;
/// The loop has at least so many times the elements that are written, which the second cache holds.
constexpr std::int64_t least_share = 8;
constexpr std::int64_t most_bytes = std::int64_t{1} << 18;

/// The operand written out along the last dimensions of the loop, along which it is the same.
SpreadOperand spread_along_rows(std::size_t operand, std::int64_t element_bytes, const Shape& shape,
                                const Strides& strides) {
  SpreadOperand result{.operand = operand, .nbytes = element_bytes};
  bool is_row = true;
  for (int d = shape.rank(); d-- > 0;) {
    const auto at = static_cast<std::size_t>(d);
    if (shape[d] == 1) continue;
    const bool moves = strides[at] != 0;
    is_row = is_row && !moves;
    if (!is_row && !moves) continue;
    result.strides[at] = result.nbytes;
    result.nbytes *= shape[d];
    if (is_row) result.times *= shape[d];
  }
  return result;
}

template <std::size_t size>
void fill_elements(const std::byte* element, std::int64_t times, std::byte* to) {
  for (std::int64_t i = 0; i < times; ++i) std::memcpy(to + i * static_cast<std::int64_t>(size), element, size);
}

}  // namespace

std::vector<SpreadOperand> operands_to_spread(const ElementLoop& loop, const KernelRequest& request, const Shape& shape,
                                              std::span<const Strides> strides) {
  const Nest plain(shape, strides);
  const std::int64_t row = plain.extents[plain.inner()];
  if (plain.rank == 1 || row >= long_row) return {};
  std::vector<SpreadOperand> result;
  std::vector<Strides> then(strides.begin(), strides.end());
  std::int64_t nbytes = 0;
  for (std::size_t k = 0; k < request.inputs.size(); ++k) {
    const bool is_one = std::ranges::all_of(strides[k], [](std::int64_t s) { return s == 0; });
    if (is_one || plain.strides[k][plain.inner()] != 0) continue;
    const std::int64_t bytes = static_cast<std::int64_t>(size_of(loop.operands()[k].dtype));
    result.push_back(spread_along_rows(k, bytes, shape, strides[k]));
    const SpreadOperand& made = result.back();
    if (made.nbytes / bytes > shape.size() / least_share) return {};
    nbytes += made.nbytes;
    then[k] = made.strides;
  }
  const Nest joined(shape, then);
  if (nbytes > most_bytes || joined.extents[joined.inner()] == row) return {};
  return result;
}

void spread(const SpreadOperand& operand, const ArrayView& from, std::byte* to) {
  const std::int64_t bytes = static_cast<std::int64_t>(size_of(from.dtype));
  const std::int64_t step = operand.times * bytes;
  std::array<std::int64_t, Shape::max_rank> index{};
  const auto* element = static_cast<const std::byte*>(from.data);
  for (std::int64_t i = from.shape.size(); i > 0; --i, to += step) {
    if (bytes == 4) {
      fill_elements<4>(element, operand.times, to);
    } else if (bytes == 2) {
      fill_elements<2>(element, operand.times, to);
    } else {
      fill_elements<1>(element, operand.times, to);
    }
    for (int d = from.shape.rank(); d-- > 0;) {
      const auto at = static_cast<std::size_t>(d);
      element += from.strides[at] * bytes;
      if (++index[at] < from.shape[d]) break;
      element -= index[at] * from.strides[at] * bytes;
      index[at] = 0;
    }
  }
}

}  // namespace lockstep::backend::jit
