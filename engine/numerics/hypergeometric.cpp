#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <lockstep/backend/special_functions.h>

#include "engine/numerics/limits.h"

// Sums lose digits where their terms cancel, so they are taken in long double, and only as far from 0 as they lose few.
// From there the functions' differential equations are followed by Taylor series, which need no gamma functions and know
// no special case of a difference of parameters that is an integer.
namespace lockstep::backend::special {

namespace {

using Wide = long double;

constexpr Wide bearable_loss = 300;
constexpr Wide beyond = std::numeric_limits<Wide>::infinity();  // a loss of all digits
// What parameters in the thousands need. Larger ones, for which neither a sum nor a way ends within these, give NaN.
constexpr int most_ratio_terms = 20000;
constexpr int most_recurrence_steps = 5000;

bool is_whole(Wide x) { return x == std::floor(x); }
bool ends(Wide x) { return x <= 0 && is_whole(x); }

/// A solution where it is known, and by how much the largest term of its sum was larger than it.
struct Known {
  Wide value = 1, slope = 0, loss = 1;
};

/// The sum of terms whose quotients are ratio(k) x; all quotients beyond `settled` are below 1.
template <class Ratio>
Known sum_of_ratios(Ratio ratio, Wide x, Wide settled) {
  Wide term = 1, sum = 1, slope = 0, largest = 1;
  const auto known = [&] {
    return Known{sum, x == 0 ? ratio(0) : slope / x, largest / std::max(std::abs(sum), std::abs(slope))};
  };
  if (!(settled < most_ratio_terms)) return {nan, nan, beyond};
  for (int k = 0; k < most_ratio_terms; ++k) {
    term *= ratio(k) * x;
    sum += term;
    slope += (k + 1) * term;
    largest = std::max(largest, std::abs(term));
    if (term == 0 || !std::isfinite(sum)) return known();
    if (k > settled && (k + 1) * std::abs(term) < 1e-21L * std::max(std::abs(sum), std::abs(slope))) return known();
  }
  return {nan, nan, beyond};
}

/// p y'' + ... = 0 from one point to the next, which lies `step` away: y's terms there are
/// v_{k+2} = (pull(k) step^2 v_k - (k + 1) drag(k) step v_{k+1}) / (p (k + 1) (k + 2)).
template <class Pull, class Drag>
Known taylor_step(const Known& from, Wide step, Wide p, Pull pull, Drag drag) {
  Wide before = from.value, here = from.slope * step, sum = before + here, slope = here;
  Wide largest = std::max(std::abs(before), std::abs(here));
  for (int k = 0; k < 400; ++k) {
    const Wide next =
        (pull(k) * step * step * before - (k + 1) * drag(k) * step * here) / (p * (k + 1) * static_cast<Wide>(k + 2));
    before = std::exchange(here, next);
    sum += here;
    slope += (k + 2) * here;
    largest = std::max(largest, std::abs(here));
    const Wide size = std::max(std::abs(sum), std::abs(slope));
    if (k > 4 && (k + 2) * std::max(std::abs(before), std::abs(here)) < 1e-21L * size) break;
    if (!std::isfinite(sum)) break;
  }
  return {sum, slope / step, largest / std::max(std::abs(sum), std::abs(slope))};
}

/// The step that loses few digits, or the last of those tried.
template <class Take>
std::pair<Known, Wide> careful_step(Wide longest, Take take) {
  Known next = take(longest);
  for (int k = 0; k < 8 && !(next.loss < bearable_loss); ++k) {
    longest /= 2;
    next = take(longest);
  }
  return {next, longest};
}

/// How far to go at `distance` from a singular point: of the other solution there, which is about distance^-power, a
/// series multiplies what has come into it by rounding.
Wide part_of(Wide distance, Wide power) { return distance / std::max(2.0L, std::abs(power) / 8); }

/// F(a, b; c; x) for 0 <= x <= 1, times a factor.
struct Gauss {
  Wide a, b, c, factor;

  Wide ratio(int k) const { return (a + k) * (b + k) / ((c + k) * (k + 1)); }

  Known series(Wide x) const {
    const Wide settled = std::abs(c) + (std::abs(a) + std::abs(b)) / 2;
    return sum_of_ratios([this](int k) { return ratio(k); }, x, ends(c) ? 0 : settled);
  }

  Known step(const Known& from, Wide x, Wide rest, Wide by) const {
    const Wide drag = c * rest + (c - a - b - 1) * x, turn = rest - x;
    return taylor_step(
        from, by, x * rest, [this](int k) { return (a + k) * (b + k); }, [=](int k) { return turn * k + drag; });
  }

  /// At x = 1 - rest, from the series' sum at `begin`, an x that is no larger.
  Wide follow(Known known, Wide begin, Wide rest) const {
    const Wide edge = 1e-21L / (1 + std::abs(a * b));
    Wide x = begin, here = 1 - begin;
    for (int steps = 0; here > rest && here > edge; ++steps) {
      if (!std::isfinite(known.value)) return known.value;
      if (steps == most_recurrence_steps) return nan;
      const Wide whole = here - rest;
      const Wide longest = std::min({whole, part_of(x, c), part_of(here, c - a - b)});
      const auto [next, by] = careful_step(longest, [&](Wide size) { return step(known, x, here, size); });
      known = next;
      x += by;
      here = by == whole ? rest : here - by;
    }
    if (here <= rest) return known.value;
    // So near to 1 the solutions are 1 and rest^d.
    const Wide d = c - a - b, logarithm = std::log(rest / here);
    return known.value - here * known.slope * (d == 0 ? logarithm : std::expm1(d * logarithm) / d);
  }
};

/// M(a, b, x), times a factor.
struct Kummer {
  Wide a, b, factor;

  Known series(Wide x) const {
    const Wide settled = std::abs(a) + std::abs(b) + std::abs(x);
    return sum_of_ratios([this](int k) { return (a + k) / ((b + k) * (k + 1)); }, x, ends(a) ? 0 : settled);
  }

  Wide follow(Known known, Wide begin, Wide end) const {
    int steps = 0;
    for (Wide x = begin; x != end; ++steps) {
      if (!std::isfinite(known.value)) return known.value;
      if (steps == most_recurrence_steps) return nan;
      const Wide whole = end - x;
      const Wide longest = std::copysign(std::min({std::abs(whole), part_of(std::abs(x), b), 8.0L}), whole);
      const auto [next, by] = careful_step(longest, [&](Wide size) {
        return taylor_step(
            known, size, x, [this](int k) { return a + k; }, [this, x](int k) { return b - x + k; });
      });
      known = next;
      x = by == whole ? end : x + by;
    }
    return known.value;
  }
};

/// The better of two equal forms, of which each begins where its series loses little and is followed to its end.
template <class Form>
Wide better(const Form& first, const Form& second, std::pair<Wide, Wide> begins, std::pair<Wide, Wide> ends) {
  for (int k = 0; k < 40; ++k, begins.first /= 2, begins.second /= 2) {
    const Known one = first.series(begins.first);
    if (one.loss < 10) return first.factor * first.follow(one, begins.first, ends.first);
    const Known other = second.series(begins.second);
    if (other.loss < bearable_loss && other.loss < one.loss) {
      return second.factor * second.follow(other, begins.second, ends.second);
    }
    if (one.loss < bearable_loss) return first.factor * first.follow(one, begins.first, ends.first);
  }
  return nan;
}

/// Of two forms of Gauss' function at one place.
Wide better(const Gauss& first, const Gauss& second, Wide x, Wide rest) {
  const Wide begin = std::min(x, 0.75L);
  return better(first, second, {begin, begin}, {rest, rest});
}

/// 1 + r_0 x (1 + r_1 x (...)), the sum that ends with the power -a.
Wide terminating_sum(const Gauss& gauss, Wide x) {
  if (-gauss.a > most_ratio_terms) return nan;
  Wide sum = 1;
  for (int k = static_cast<int>(-gauss.a) - 1; k >= 0; --k) sum = 1 + gauss.ratio(k) * x * sum;
  return sum;
}

/// (x)_n / (y)_n
Wide quotient_of_powers(Wide x, Wide y, Wide n) {
  if (n > most_ratio_terms) return nan;
  Wide product = 1;
  for (int k = 0; k < n; ++k) product *= (x + k) / (y + k);
  return product;
}

/// F where it is a polynomial, for any x: a is 0 or a negative integer, and b none that is nearer to 0.
Wide polynomial_sum(const Gauss& gauss, Wide x) {
  if (x < 0 || x > 1) return gauss.factor * terminating_sum(gauss, x);
  const Wide d = gauss.c - gauss.a - gauss.b, rest = 1 - x;
  if (x <= 0.5L || d > 0) return better(gauss, gauss, x, rest);
  // Another solution outgrows it towards 1, which follows from there.
  const Wide there = gauss.factor * quotient_of_powers(gauss.c - gauss.b, gauss.c, -gauss.a);
  const Gauss reflected{gauss.a, gauss.b, 1 - d, there};
  return better(reflected, reflected, rest, x);
}

/// M(a, b, x) far below 0: gamma(b) / gamma(b - a) |x|^-a times the sum of (a)_k (a - b + 1)_k / (k! |x|^k). NaN where a
/// term is not below the one before.
Wide far_below(Wide a, Wide b, Wide x) {
  Wide term = 1, sum = 1;
  for (int k = 0; std::abs(term) > 1e-20L; ++k) {
    const Wide ratio = (a + k) * (a - b + 1 + k) / ((k + 1) * -x);
    if (!(std::abs(ratio) < 0.9L)) return nan;
    term *= ratio;
    sum += term;
  }
  const Wide factor = std::tgamma(b) / std::tgamma(b - a) * std::pow(-x, -a);
  return std::isfinite(factor) ? factor * sum : nan;
}

}  // namespace

double hyp1f1(double a, double b, double x) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(x)) return nan;
  if (a == 0 || (x == 0 && b != 0)) return 1;
  const bool is_polynomial = ends(a) && !(ends(b) && b > a);
  if (ends(b) && !is_polynomial) return infinity;
  if (a == b) return std::exp(x);
  const Wide rest = static_cast<Wide>(b) - a, wide = x;
  if (std::isinf(x)) {
    if (x < 0 && !is_polynomial && (a > 0 || ends(rest))) return 0;
    const double edge = std::copysign(is_polynomial ? std::numeric_limits<double>::max() : 1e4, x);
    return std::copysign(infinity, hyp1f1(a, b, edge));
  }
  if (x < -60 && !ends(rest)) {
    const Wide value = far_below(a, b, x);
    if (!std::isnan(value)) return static_cast<double>(value);
  }
  if (x < -11000 && !is_polynomial) return ends(rest) ? 0 : nan;  // exp(x) has no digits
  const Kummer straight{a, b, 1}, turned{rest, b, std::exp(wide)};
  const bool turns = x < 0 && !is_polynomial;
  if (x < 0 && ends(rest) && !is_polynomial) {
    return static_cast<double>(better(turned, turned, {-wide, -wide}, {-wide, -wide}));
  }
  return static_cast<double>(turns ? better(turned, straight, {-wide, wide}, {-wide, wide})
                                   : better(straight, turned, {wide, -wide}, {wide, -wide}));
}

double hyp2f1(double a, double b, double c, double x) {
  if (std::isnan(a) || std::isnan(b) || std::isnan(c) || std::isnan(x)) return nan;
  if (x == 0 || a == 0 || b == 0) return 1;
  if (ends(b) && !(ends(a) && a > b)) std::swap(a, b);
  const bool is_polynomial = ends(a);
  if (ends(c) && !(is_polynomial && a >= c)) return infinity;
  if (std::isinf(x)) {
    const double edge = hyp2f1(a, b, c, std::copysign(std::numeric_limits<double>::max(), x));
    return std::abs(edge) < 1 ? 0 : edge * infinity;
  }
  const Wide wide = x, wide_a = a, wide_b = b, wide_c = c, d = wide_c - wide_a - wide_b, rest = 1 - wide;
  const Gauss straight{wide_a, wide_b, wide_c, 1};
  if (is_polynomial) return static_cast<double>(polynomial_sum(straight, wide));
  Gauss euler{wide_c - wide_a, wide_c - wide_b, wide_c, std::pow(rest, d)};
  if (ends(euler.b) && !(ends(euler.a) && euler.a > euler.b)) std::swap(euler.a, euler.b);
  if (x > 1 && !(ends(euler.a) && is_whole(d))) return infinity;
  if (ends(euler.a)) return static_cast<double>(polynomial_sum(euler, wide));
  if (x == 1) return static_cast<double>(better(straight, straight, wide, rest));
  if (x > 0) return static_cast<double>(better(straight, euler, wide, rest));
  // Pfaff's transformation: to x / (x - 1), which lies 1 / (1 - x) below 1.
  const Wide left = 1 / rest, place = -wide * left;
  return static_cast<double>(better(Gauss{wide_a, wide_c - wide_b, wide_c, std::pow(left, wide_a)},
                                    Gauss{wide_b, wide_c - wide_a, wide_c, std::pow(left, wide_b)}, place, left));
}

}  // namespace lockstep::backend::special
