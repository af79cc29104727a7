#include "engine/exchange/stablehlo/windows.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/manipulation.h>
#include <lockstep/ops.h>

// Windows over an array, as StableHLO's attributes describe them.
namespace lockstep::exchange {

namespace {

constexpr std::int64_t most_elements = 1 << 16;

}  // namespace

Windows::Windows(const OpCall& call, int rank) {
  const Axes ones(static_cast<std::size_t>(rank), 1);
  sizes = call.integers({"window_dimensions"}, ones);
  strides = call.integers({"window_strides"}, ones);
  base = call.integers({"base_dilations"}, ones);
  window = call.integers({"window_dilations"}, ones);
  padding = call.pairs({"padding"}, rank);
  for (const Axes* list : {&sizes, &strides, &base, &window}) {
    if (list->size() != ones.size()) call.refuse("its windows have another rank than its operand");
    if (std::ranges::any_of(*list, [](std::int64_t n) { return n < 1; })) {
      call.refuse("its windows, strides and dilations must be 1 or more");
    }
  }
}

ReduceWindowOptions Windows::options() const {
  return {.window = sizes, .strides = strides, .padding = padding, .base_dilation = base, .window_dilation = window};
}

std::int64_t Windows::elements() const {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count = std::min(count, most_elements + 1) * std::min(size, most_elements + 1);
  return count;
}

bool Windows::has_padding() const {
  return std::ranges::any_of(padding, [](const auto& pair) { return pair.first > 0 || pair.second > 0; }) ||
         std::ranges::any_of(base, [](std::int64_t n) { return n > 1; });
}

Shape Windows::result(const Shape& shape) const {
  Shape out;
  for (int d = 0; d < shape.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const std::int64_t extent = std::max<std::int64_t>((shape[d] - 1) * base[i] + 1, 0);
    const std::int64_t room = extent + padding[i].first + padding[i].second - (sizes[i] - 1) * window[i] - 1;
    out.append(room < 0 ? 0 : room / strides[i] + 1);
  }
  return out;
}

std::optional<std::pair<std::int64_t, bool>> Windows::cumulative(const Shape& shape) const {
  std::optional<std::pair<std::int64_t, bool>> found;
  for (int d = 0; d < shape.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (strides[i] != 1 || base[i] != 1 || window[i] != 1) return std::nullopt;
    if (sizes[i] == 1 && padding[i] == std::pair<std::int64_t, std::int64_t>(0, 0)) continue;
    const std::int64_t before = shape[d] - 1;
    const bool forwards = padding[i] == std::pair<std::int64_t, std::int64_t>(before, 0);
    const bool backwards = padding[i] == std::pair<std::int64_t, std::int64_t>(0, before);
    if (found || sizes[i] != shape[d] || (!forwards && !backwards)) return std::nullopt;
    found = {d, backwards && !forwards};
  }
  return found;
}

bool Windows::all_hold_elements(const Shape& shape) const {
  const Shape out = result(shape);
  for (int d = 0; d < shape.rank(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const std::int64_t reach = (sizes[i] - 1) * window[i] + 1;
    if (padding[i].first >= reach || padding[i].second >= reach) return false;
    const auto is_element = [&](std::int64_t place) {
      return place >= 0 && place % base[i] == 0 && place / base[i] < shape[d];
    };
    for (std::int64_t o = 0; o < out[d]; ++o) {
      bool found = false;
      for (std::int64_t k = 0; k < sizes[i] && !found; ++k) {
        found = is_element(o * strides[i] + k * window[i] - padding[i].first);
      }
      if (!found) return false;
    }
  }
  return true;
}

std::vector<Array> Windows::split(const Array& x, const Array& between) const {
  if (elements() > most_elements) {
    throw ShapeError(
        fmt::format("windows of more than {} elements; expected fewer for a region of its own", most_elements));
  }
  const Shape out = result(x.shape());
  Axes low, high, interior;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    low.push_back(padding[d].first);
    high.push_back(padding[d].second);
    interior.push_back(base[d] - 1);
  }
  const Array padded =
      has_padding() || std::ranges::any_of(padding, [](const auto& p) { return p.first < 0 || p.second < 0; })
          ? pad(x, between, low, high, interior)
          : x;
  std::vector<Array> all;
  Axes place(sizes.size(), 0);
  for (std::int64_t i = 0, count = elements(); i < count; ++i) {
    Axes first, limit;
    for (std::size_t d = 0; d < sizes.size(); ++d) {
      // A window that does not fit has no place, so no element of it has one either.
      const std::int64_t windows = out[static_cast<int>(d)];
      first.push_back(windows == 0 ? 0 : place[d] * window[d]);
      limit.push_back(windows == 0 ? 0 : first[d] + (windows - 1) * strides[d] + 1);
    }
    all.push_back(slice(padded, first, limit, strides));
    for (std::size_t d = sizes.size(); d-- > 0;) {
      if (++place[d] < sizes[d]) break;
      place[d] = 0;
    }
  }
  return all;
}

}  // namespace lockstep::exchange
