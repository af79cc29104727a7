#include <string_view>

#include <fmt/format.h>

#include <lockstep/arithmetic.h>
#include <lockstep/control_flow.h>
#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/manipulation.h>
#include <lockstep/reductions.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"

namespace lockstep {

namespace {

/// 2^n for n from -126 to 127 (of float64 -1022 to 1023), by its bits.
Array power_of_two(const Array& n, DType dtype) {
  if (dtype == float64) return bitcast_convert(shift_left(convert(n, int64) + 1023, 52), float64);
  return bitcast_convert(shift_left(n + 127, 23), float32);
}

/// x 2^n for an n that two normal numbers and a third one make.
Array scaled(const Array& x, const Array& n) {
  const Array third = floor_divide(n, 3);
  const Array rest = n - 2 * third;
  return x * power_of_two(third, x.dtype()) * power_of_two(third, x.dtype()) * power_of_two(rest, x.dtype());
}

DType computed(const Array& x) { return api::widened(x.dtype()); }

/// The largest n that changes anything.
std::int64_t limit(DType dtype) { return dtype == float64 ? 2200 : 300; }

}  // namespace

Array gcd(const ArrayOperand& a, const ArrayOperand& b) {
  using Pair = std::pair<Array, Array>;
  api::expect_integers("gcd", a, "operands");
  api::expect_integers("gcd", b, "operands");
  const Operand left = a, right = b;
  const std::vector<Array> both = api::aligned("gcd", {&left, &right}, api::common_dtype({a, b}));
  const auto go_on = [](const Pair& p) { return any(p.second != 0); };
  const auto step = [](const Pair& p) {
    const Array none = p.second == 0;
    const Array rest = rem(p.first, where(none, 1, p.second));
    return Pair(where(none, p.first, p.second), where(none, 0, rest));
  };
  return abs(while_loop(go_on, step, Pair(both[0], both[1])).first);
}

Array lcm(const ArrayOperand& a, const ArrayOperand& b) {
  const Array divisor = gcd(a, b);
  return abs(where(divisor == 0, 0, div(convert(a, divisor.dtype()), where(divisor == 0, 1, divisor)) * b));
}

std::pair<Array, Array> frexp(const ArrayOperand& x) {
  const DType given = api::inexact(x.dtype()), dtype = computed(x);
  if (is_complex(dtype)) {
    throw DtypeError(fmt::format("frexp: {} given; expected floats: take abs first", to_string(x.type())));
  }
  const bool wide = dtype == float64;
  const Array number = convert(x, dtype), fixed = stop_gradient(number);
  // Numbers without a leading bit of their own get one first.
  const int lift = wide ? 54 : 25;
  const Array is_small = abs(fixed) < (wide ? 2.2250738585072014e-308 : 1.1754943508222875e-38);
  const Array lifted = where(is_small, scaled(fixed, full({}, lift, int32)), fixed);
  const Array bits = wide ? convert(shift_right_logical(bitcast_convert(lifted, int64), 52) & 0x7ff, int32)
                          : shift_right_logical(bitcast_convert(lifted, int32), 23) & 0xff;
  const Array found = bits - (wide ? 1022 : 126) - where(is_small, lift, 0);
  const Array exponent = where(logical_or(fixed == 0, logical_not(is_finite(fixed))), 0, found);
  return {convert(scaled(number, -exponent), given), exponent};
}

Array ldexp(const ArrayOperand& x, const ArrayOperand& n) {
  api::expect_integers("ldexp", n, "exponents");
  const DType given = api::inexact(x.dtype()), dtype = computed(x);
  if (is_complex(dtype)) {
    throw DtypeError(fmt::format("ldexp: {} given; expected floats: scale both parts", to_string(x.type())));
  }
  const Array bounded = api::clip_integers(api::in_at_least_32_bits(n), -limit(dtype), limit(dtype));
  return convert(scaled(convert(x, dtype), convert(bounded, int32)), given);
}

Array unwrap(const ArrayOperand& x, std::int64_t axis, double period) {
  const int dim = normalize_axis(axis, x.ndim(), "unwrap");
  const DType given = api::inexact(x.dtype());
  const Array angles = convert(x, computed(x));
  if (x.dim(dim) < 2) return convert(x, given);
  const Array steps = diff(angles, 1, dim), half = full({}, period / 2, angles.dtype());
  const Array near = remainder(steps + half, period) - half;
  const Array turned = where(logical_and(near == -half, steps > 0), half, near);
  const Array more = where(abs(steps) < half, 0, turned - steps);
  Shape first = x.shape().with(dim, 1);
  return convert(angles + concatenate({zeros(first, angles.dtype()), cumsum(more, dim)}, dim), given);
}

}  // namespace lockstep
