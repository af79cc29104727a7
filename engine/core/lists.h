#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

// Lists whose places and lengths come as signed numbers: dimensions, ranks, extents, attributes.
namespace lockstep {

/// The element in place `i`, which the list has.
template <class List, std::integral I>
constexpr decltype(auto) nth(List&& list, I i) {
  return std::forward<List>(list)[static_cast<std::size_t>(i)];
}

/// The place of the first element that equals `value`; behind the last where none does.
template <class List, class T>
constexpr std::size_t place_in(const List& list, const T& value) {
  return static_cast<std::size_t>(std::ranges::find(list, value) - std::ranges::begin(list));
}

/// Whether an element equals `value`.
template <class List, class T>
constexpr bool contains(const List& list, const T& value) {
  return std::ranges::find(list, value) != std::ranges::end(list);
}

/// A list of that many equal elements, dimensions if nothing else is said.
template <class T = std::int64_t>
std::vector<T> repeated(std::integral auto count, std::type_identity_t<T> value = {}) {
  return std::vector<T>(static_cast<std::size_t>(count), value);
}

}  // namespace lockstep
