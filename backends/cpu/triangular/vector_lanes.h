#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lockstep::backend::cpu {

/// A vector of so many bytes, of a type `Lanes` that derives from this and has what the compiler knows no operator for.
template <class Lanes, class T, std::int64_t bytes>
struct VectorLanes {
  static constexpr auto width = bytes / static_cast<std::int64_t>(sizeof(T));
  using Values [[gnu::vector_size(bytes)]] = T;

  static Lanes zero() { return {{Values{}}}; }
  static Lanes load(const T* from) {
    Values values;
    std::memcpy(&values, from, sizeof(values));
    return {{values}};
  }
  /// Zeros behind the first `count`.
  static Lanes load(const T* from, std::int64_t count) {
    Values values{};
    std::memcpy(&values, from, static_cast<std::size_t>(count) * sizeof(T));
    return {{values}};
  }
  void store(T* to) const { std::memcpy(to, &values, sizeof(values)); }
  void store(T* to, std::int64_t count) const { std::memcpy(to, &values, static_cast<std::size_t>(count) * sizeof(T)); }
  friend Lanes operator/(Lanes a, Lanes b) { return {{a.values / b.values}}; }

  /// a0 b0 a1 b1 ... of both first halves.
  static Lanes low_pairs(Lanes a, Lanes b) { return pairs<0>(a, b, std::make_integer_sequence<int, width>()); }
  /// Of both second halves.
  static Lanes high_pairs(Lanes a, Lanes b) { return pairs<width / 2>(a, b, std::make_integer_sequence<int, width>()); }

  Values values;

 private:
  template <int first, int... i>
  static Lanes pairs(Lanes a, Lanes b, std::integer_sequence<int, i...> /*places*/) {
    constexpr int of_b = width;
    return {{__builtin_shufflevector(a.values, b.values, (first + i / 2 + i % 2 * of_b)...)}};
  }
};

}  // namespace lockstep::backend::cpu
