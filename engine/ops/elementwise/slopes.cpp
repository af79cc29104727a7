#include "engine/ops/elementwise/slopes.h"

namespace lockstep::ops::slopes {

namespace {

Value one_minus(const Value& x) { return 1.0 - x; }
Value is_above(const Value& x, double limit) { return greater(x, full_like(x, limit)); }

}  // namespace

Value in_wide(const Value& x, const std::function<Value(const Value& x)>& f) {
  const DType dtype = x.dtype();
  if (!is_narrow_float(dtype)) return f(x);
  return convert(f(convert(x, DType::float32)), dtype);
}

Value folded(const Value& x) { return select(is_above(x, 0), -x, x); }

Value logistic(const Value& x) {
  return in_wide(x, [](const Value& wide) {
    const Value z = ops::logistic(folded(wide));
    return z * one_minus(z);
  });
}

Value tanh(const Value& x, const Value& y) {
  const DType dtype = x.dtype();
  return in_wide(x, [&](const Value& wide) {
    const Value of_y = wide.dtype() == dtype ? y : convert(y, wide.dtype());
    const Value square = of_y * of_y;
    const Value z = ops::logistic(folded(wide * 2.0));
    return select(less(square, full_like(square, 0.25)), one_minus(square), z * one_minus(z) * 4.0);
  });
}

Value bell(const Value& x) {
  return in_wide(x, [](const Value& wide) {
    const Value near = select(is_above(abs(wide), 28), full_like(wide, 28), wide);
    const Value square = near * near;
    const Value lost = fma(near, near, -square);
    return ops::exp(-square) * one_minus(lost);
  });
}

Value atan(const Value& x) {
  return in_wide(x, [](const Value& wide) {
    const Value far = is_above(abs(wide), 1);
    const Value near = select(far, full_like(wide, 0), wide);
    const Value inverse = full_like(wide, 1) / select(far, wide, full_like(wide, 1));
    const Value square = inverse * inverse;
    return select(far, square, full_like(wide, 1)) / (select(far, square, near * near) + 1);
  });
}

Value asinh(const Value& x) {
  return in_wide(x, [](const Value& wide) {
    const Value far = is_above(abs(wide), 1e4);
    const Value near = select(far, full_like(wide, 0), wide);
    const Value inverse = full_like(wide, 1) / select(far, wide, full_like(wide, 1));
    const Value root = rsqrt(select(far, inverse * inverse, near * near) + 1);
    return select(far, abs(inverse), full_like(wide, 1)) * root;
  });
}

}  // namespace lockstep::ops::slopes
