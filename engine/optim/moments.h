#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/elementwise.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>
#include <lockstep/optim.h>

// What an optimizer keeps of the gradients so far.
namespace lockstep::optim {

/// In a dtype that holds sums and small numbers: float32 for what is narrower.
inline Array wide(const Array& x) { return convert(x, promote(x.dtype(), float32)); }
/// Every leaf so.
LOCKSTEP_API Tree widened(const Tree& tree);

/// Slots of at least float32: a narrower one would hold neither an average that moves slowly nor a square.
LOCKSTEP_API Tree zeros_of(const Tree& params);
/// Slots for what is real of each leaf, its square or magnitude.
LOCKSTEP_API Tree real_slots_of(const Tree& params, double value = 0);

enum class Sign : std::uint8_t { any, positive };

/// A decaying average with 0 for what is subnormal. A weight whose gradient has become zero would else have a subnormal
/// average for ever, since 0.9 times a few of the smallest number is rounded to as many, and processors take a hundred
/// times as long to multiply such numbers.
LOCKSTEP_API Array decaying(const Array& average, Sign sign = Sign::any);

/// |g|^2, real.
LOCKSTEP_API Array magnitude_squared(const Array& g);
/// decay m + (1 - decay) g, leaf by leaf.
LOCKSTEP_API Tree next_averages(double decay, const Tree& averages, const Tree& gradients);
/// decay v + (1 - decay) |g|^2, leaf by leaf.
LOCKSTEP_API Tree next_square_averages(double decay, const Tree& averages, const Tree& gradients);

/// The number of updates made, before the first.
LOCKSTEP_API Array first_count();
/// 1 / (1 - decay^count), in float64 so that it does not cancel in the first steps. A scalar of a step: a division for each
/// parameter would take as long as all else.
LOCKSTEP_API Array correction(double decay, const Array& count);
/// x times a scalar, in x's dtype.
inline Array times(const Array& factor, const Array& x) { return x * convert(factor, x.dtype()); }

/// A leaf's norm and the root of the mean of its squares, in at least float32: rank 0.
LOCKSTEP_API Array leaf_norm(const Array& x);
Array leaf_rms(const Array& x);

/// `f` of corresponding leaves; `refuse(path, x, y)` throws for the first that do not fit.
template <class Fits, class Refuse, class F>
Tree map_fitting(const Fits& fits, const Refuse& refuse, const F& f, const Tree& a, const Tree& b) {
  std::size_t next = 0;
  const auto checked = [&](const Array& x, const Array& y) {
    const std::size_t at = next++;
    if (!fits(x, y)) refuse(a.paths()[at], x, y);
    return f(x, y);
  };
  return map(checked, a, b);
}

/// `f` of corresponding leaves. Throws StateError where the trees differ in structure, ShapeError naming the first leaf
/// by path that has not one shape in both: a broadcast would be another number of parameters.
LOCKSTEP_API Tree map_pairs(const std::function<Array(const Array&, const Array&)>& f, const Tree& a, const Tree& b);

/// The leaves of a tree, where they are one operand of what is computed leaf by leaf.
using Leaves = std::vector<Array>;
/// Throws as map_pairs, but that a leaf of `other` may be one number for the whole leaf.
LOCKSTEP_API void check_pairs(const Tree& tree, const Tree& other);
/// `f` of corresponding leaves of the trees, as a tree like the first. Throws as check_pairs.
template <class F, class... Trees>
Tree together(const F& f, const Tree& first, const Trees&... others) {
  (check_pairs(first, others), ...);
  Leaves results;
  const auto apply = [&](const Leaves& a, const auto&... rest) {
    for (std::size_t i = 0; i < a.size(); ++i) results.push_back(f(a[i], rest[i]...));
  };
  apply(first.leaves(), others.leaves()...);
  return first.unflatten(std::move(results));
}

/// No slots.
inline Tree no_state(const Tree&) { return {}; }

}  // namespace lockstep::optim
