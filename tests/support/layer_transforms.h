#pragma once

#include <functional>
#include <tuple>
#include <utility>

#include <lockstep/lockstep.h>

namespace lockstep::tests {

/// A layer that keeps the shape of its input.
using LayerFunction = std::function<Array(const Scope&, const Array&)>;
/// A layer called in a transform, or in plain code.
using LayerTransform = std::function<Array(const Scope&, const Array&, const LayerFunction&)>;

inline Array once(const Scope& s, const Array& x, const LayerFunction& f) { return f(s, x); }
inline Array twice(const Scope& s, const Array& x, const LayerFunction& f) { return f(s, f(s, x)); }

// Equal to once.

inline Array in_remat(const Scope& s, const Array& x, const LayerFunction& f) {
  return remat([&](const Array& v) { return f(s, v); })(x);
}

inline Array in_jit(const Scope& s, const Array& x, const LayerFunction& f) {
  return jit([&](const Array& v) { return f(s, v); })(x);
}

inline Array in_switch(const Scope& s, const Array& x, const LayerFunction& f) {
  return switch_(full({}, 1, int32),
                 {[](const Array& v) { return v; }, [&](const Array& v) { return f(s, v); },
                  [&](const Array& v) { return f(s, f(s, v)); }},
                 x);
}

inline Array in_jvp(const Scope& s, const Array& x, const LayerFunction& f) {
  return jvp([&](const Array& v) { return f(s, v); }, std::tuple(x), std::tuple(x)).first;
}

// Equal to twice.

inline Array in_scan(const Scope& s, const Array& x, const LayerFunction& f) {
  return scan([&](const Array& v) { return std::pair(f(s, v), v); }, x, {.length = 2}).first;
}

inline Array in_fori_loop(const Scope& s, const Array& x, const LayerFunction& f) {
  return fori_loop(
      0, 2, [&](const Array&, const Array& v) { return f(s, v); }, x);
}

inline Array in_remat_in_scan(const Scope& s, const Array& x, const LayerFunction& f) {
  const auto body = remat([&](const Array& v) { return f(s, v); });
  return scan([&](const Array& v) { return std::pair(body(v), Tree()); }, x, {.length = 2}).first;
}

inline Array in_scan_in_remat_in_jit(const Scope& s, const Array& x, const LayerFunction& f) {
  return jit(remat([&](const Array& v) { return in_scan(s, v, f); }))(x);
}

}  // namespace lockstep::tests
