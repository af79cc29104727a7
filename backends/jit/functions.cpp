#include "backends/jit/functions.h"

#include <array>
#include <cstddef>
#include <limits>
#include <span>

namespace lockstep::backend::jit::functions {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float log2_e = 1.44269504F;
// log 2 in two parts, the first with so few digits that multiples of it are exact.
constexpr float log_2_high = 0.693359375F;
constexpr float log_2_low = -2.12194440e-4F;

/// Formulas as they are written; a step knows its code.
struct Term {
  Code* code;
  int step;
};
Term number(Term like, float x) { return {like.code, like.code->number(x)}; }
Term bits(Term like, std::uint32_t x) { return {like.code, like.code->constant(x)}; }
Term apply(Op op, Term a) { return {a.code, a.code->step(op, a.step)}; }
Term apply(Op op, Term a, Term b) { return {a.code, a.code->step(op, a.step, b.step)}; }
Term apply(Op op, Term a, Term b, Term c) { return {a.code, a.code->step(op, a.step, b.step, c.step)}; }

Term operator+(Term a, Term b) { return apply(Op::add, a, b); }
Term operator-(Term a, Term b) { return apply(Op::sub, a, b); }
Term operator*(Term a, Term b) { return apply(Op::mul, a, b); }
Term operator/(Term a, Term b) { return apply(Op::div, a, b); }
Term operator+(Term a, float b) { return a + number(a, b); }
Term operator-(Term a, float b) { return a - number(a, b); }
Term operator*(Term a, float b) { return a * number(a, b); }
Term operator<(Term a, Term b) { return apply(Op::less, a, b); }
Term operator<(Term a, float b) { return a < number(a, b); }
Term operator>(Term a, float b) { return number(a, b) < a; }
Term operator&(Term a, Term b) { return apply(Op::bit_and, a, b); }
Term operator|(Term a, Term b) { return apply(Op::bit_or, a, b); }
Term fma(Term a, Term b, Term c) { return apply(Op::fma, a, b, c); }
Term fma(Term a, float b, Term c) { return fma(a, number(a, b), c); }
Term fma(Term a, Term b, float c) { return fma(a, b, number(a, c)); }
Term select(Term mask, Term on_true, Term on_false) { return apply(Op::select, mask, on_true, on_false); }
Term is_nan(Term x) { return apply(Op::not_equal, x, x); }
Term sign_bit(Term x) { return x & bits(x, 0x80000000U); }
bool is_sign_bit(const Code& code, int step) { return code[step].op == Op::constant && code[step].bits == 0x80000000U; }
/// x without a change of sign that its size does not see: a function of |x| and one of -|x| then share their steps.
int unsigned_step(const Code& code, int x) {
  const Step& step = code[x];
  if (step.op == Op::bit_xor && is_sign_bit(code, step.b)) return unsigned_step(code, step.a);
  if (step.op != Op::select) return x;
  const int on_true = unsigned_step(code, step.b);
  return on_true == unsigned_step(code, step.c) ? on_true : x;
}
Term without_sign(Term x) { return Term{x.code, unsigned_step(*x.code, x.step)} & bits(x, 0x7FFFFFFFU); }
Term flipped(Term x) { return apply(Op::bit_xor, x, bits(x, 0x80000000U)); }

/// The polynomial with these coefficients, that of the highest power first.
Term horner_terms(Term x, std::span<const float> coefficients) {
  Term sum = number(x, coefficients[0]);
  for (const float c : coefficients.subspan(1)) sum = fma(sum, x, c);
  return sum;
}

/// Within [low, high]; NaN stays.
Term clamped(Term x, float low, float high) {
  return apply(Op::max, number(x, low), apply(Op::min, number(x, high), x));
}

/// 2^k of an integer -126 <= k <= 127.
Term power_of_two(Term k) { return apply(Op::shift_left, apply(Op::int_add, k, bits(k, 127)), bits(k, 23)); }

/// x = k log 2 + r, |r| <= log(2) / 2; and p(r) with e^r = 1 + r + r^2 p(r).
struct Reduced {
  Term k;
  Term r;
  Term p;
};
Term series_beyond_line(Term r) {
  // The series' coefficients, the last ones fitted to the interval.
  constexpr std::array coefficients = {1.9875691500e-4F, 1.3981999507e-3F, 8.3334519073e-3F,
                                       4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F};
  return horner_terms(r, coefficients);
}
Reduced reduced_argument(Term x) {
  const Term k = apply(Op::round, x * log2_e);
  const Term r = fma(k, -log_2_low, fma(k, -log_2_high, x));
  return {k, r, series_beyond_line(r)};
}

/// e 2^k of a whole number k; in two factors, since 2^k alone may be no normal number.
Term times_power(Term e, Term whole) {
  const Term k = apply(Op::to_int, whole);
  const Term half = apply(Op::shift_sign, k, bits(k, 1));
  return e * power_of_two(half) * power_of_two(apply(Op::int_sub, k, half));
}

Term exp_of(Term x) {
  const Reduced by = reduced_argument(clamped(x, -104.0F, 89.0F));
  return times_power(fma(by.r * by.r, by.p, by.r) + 1.0F, by.k);
}

/// x - k is exact, and so its product with log 2 in two parts is as good as a number r with half an ulp more.
Term exp2_of(Term x) {
  constexpr float log_2 = 0.693147182F, log_2_rest = -1.90465430e-9F;
  const Term within = clamped(x, -151.0F, 129.0F);
  const Term k = apply(Op::round, within);
  const Term f = within - k;
  const Term r = f * log_2;
  const Term lost = fma(f, log_2_rest, fma(f, log_2, flipped(r)));
  return times_power(fma(r * r, series_beyond_line(r), lost) + r + 1.0F, k);
}

Term expm1_of(Term x) {
  const Reduced by = reduced_argument(clamped(x, -104.0F, 89.0F));  // as exp, to share it
  const Term e = fma(by.r * by.r, by.p, by.r);
  // 2^k e^r - 1 with half the power, which is a number for k = 128 too.
  const Term k = apply(Op::max, number(x, -40.0F), by.k);
  const Term half = power_of_two(apply(Op::int_sub, apply(Op::to_int, k), bits(x, 1)));
  const Term value = fma(half, e, half - 0.5F) * 2.0F;
  return select(without_sign(x) < 1e-8F, x, value);
}

/// log(1 + f) without f, for m = 1 + f within [sqrt(1/2), sqrt(2)]: s (f^2/2 + R) with s = f / (2 + f).
struct Series {
  Term half_square;
  Term product;
};
Series log_series(Term f) {
  constexpr std::array coefficients = {0.24279078841F, 0.28498786688F, 0.40000972152F, 0.66666662693F};
  const Term s = f / (f + 2.0F);
  const Term z = s * s;
  const Term half_square = f * 0.5F * f;
  return {half_square, s * fma(z, horner_terms(z, coefficients), half_square)};
}

/// x = 2^k m, m within [sqrt(1/2), sqrt(2)], for normal x > 0.
struct Scaled {
  Term k;
  Term m;
};
Scaled scaled(Term x) {
  const Term above = apply(Op::int_sub, x, bits(x, 0x3F3504F3U));
  const Term k = apply(Op::shift_sign, above, bits(x, 23));
  const Term m = apply(Op::int_sub, x, apply(Op::shift_left, k, bits(x, 23)));
  return {apply(Op::to_float, k), m};
}

/// What a logarithm is where `x`, of which it is taken, is no positive number.
Term with_edges(Term x, Term logarithm) {
  const Term zero = number(x, 0.0F);
  Term value = select(x < infinity, logarithm, x);  // infinity and NaN stay
  value = select(apply(Op::equal, x, zero), number(x, -infinity), value);
  return select(x < zero, number(x, not_a_number), value);
}

constexpr float log_split_high = 6.9313812256e-1F;
constexpr float log_split_low = 9.0580006145e-6F;

Term log_of(Term x) {
  const Term small = x < std::numeric_limits<float>::min();
  const Scaled by = scaled(select(small, x * 8388608.0F, x));
  const Term k = select(small, by.k - 23.0F, by.k);
  const Term f = by.m - 1.0F;
  const Series series = log_series(f);
  const Term low = fma(k, log_split_low, series.product);
  return with_edges(x, fma(k, log_split_high, f - (series.half_square - low)));
}

Term log1p_of(Term x) {
  const Term near = (x > -0.29289F) & (x < 0.41421F);
  const Term u = x + 1.0F;
  const Scaled by = scaled(u);
  // What u has lost of 1 + x.
  const Term lost = select(x > 1.0F, number(x, 1.0F) - (u - x), x - (u - 1.0F)) / u;
  const Term zero = number(x, 0.0F);
  const Term k = select(near, zero, by.k);
  const Term f = select(near, x, by.m - 1.0F);
  const Series series = log_series(f);
  const Term low = fma(k, log_split_low, select(near, zero, lost)) + series.product;
  const Term value = with_edges(u, fma(k, log_split_high, f - (series.half_square - low)));
  return select(without_sign(x) < 1e-8F, x, value);
}

Term tanh_of(Term x) {
  const Term e =
      expm1_of(without_sign(x * 2.0F) | bits(x, 0x80000000U));  // as the logistic function of 2 x, its slope's
  const Term value = flipped(e) / (e + 2.0F);
  return without_sign(value) | sign_bit(x);
}

Term logistic_of(Term x) {
  const Term e = exp_of(without_sign(x) | bits(x, 0x80000000U));
  const Term below = e / (e + 1.0F);
  return select(x > 0.0F, number(x, 1.0F) - below, below);
}

Term erf_of(Term x) {
  constexpr std::array near_zero = {-5.96761703e-4F, 4.99119423e-3F,  -2.67681349e-2F,
                                    1.12819925e-1F,  -3.76125336e-1F, 1.28379166e-1F};
  constexpr std::array beyond = {-1.72853470e-5F, 3.83197126e-4F,  -3.88396438e-3F, 2.42546219e-2F,
                                 -1.06777877e-1F, -6.34846687e-1F, -1.28717512e-1F};
  const Term t = without_sign(x);
  const Term small = fma(horner_terms(x * x, near_zero), x, x);
  // Beyond 4 the polynomial is not to be trusted, and erf is 1.
  const Term u = apply(Op::min, number(x, 4.0F), t);
  const Term tail = number(x, 1.0F) - exp_of(fma(horner_terms(u, beyond), u, flipped(u)));
  return select(t > 0.921875F, tail | sign_bit(x), small);
}

/// exp(-t^2) times (1 + p(q)) / (1 + 2 t) with q = (t - 2) / (t + 2): a polynomial on [-1, 0.67] for all of the tail. What
/// rounding takes from q, the quotient and t^2 is added again.
Term erfc_of(Term x) {
  constexpr std::array coefficients = {-4.01020574e-4F, -1.23073824e-3F, 1.31355994e-3F, 8.63243826e-3F,
                                       -8.05991236e-3F, -5.42047396e-2F, 1.64055347e-1F, -1.66031361e-1F,
                                       -9.27639678e-2F, 2.76978403e-1F};
  const Term one = number(x, 1.0F);
  const Term t = clamped(without_sign(x), 0.0F, 10.0625F);
  const Term scale = one / (t + 2.0F);
  const Term near = (t - 2.0F) * scale;
  const Term q = fma(scale, fma(near, flipped(t), fma(near + 1.0F, number(x, -2.0F), t)), near);
  const Term p = horner_terms(q, coefficients);
  const Term inverse = one / fma(t, 2.0F, one);
  const Term quotient = fma(p, inverse, inverse);
  const Term left = fma(fma(quotient, flipped(t), 0.5F), 2.0F, p - quotient);
  const Term ratio = fma(left, inverse, quotient);
  const Term square = t * t;
  const Term e = exp_of(flipped(square));
  const Term tail = fma(ratio, e, ratio * e * fma(flipped(t), t, square));
  return select(x < 0.0F, number(x, 2.0F) - tail, tail);
}

}  // namespace

int negative(Code& code, int x) { return flipped({&code, x}).step; }
int magnitude(Code& code, int x) { return without_sign({&code, x}).step; }

int maximum(Code& code, int a, int b) {
  const Term x{&code, a};
  return select(is_nan(x), x, apply(Op::max, x, {&code, b})).step;
}

int minimum(Code& code, int a, int b) {
  const Term x{&code, a};
  return select(is_nan(x), x, apply(Op::min, x, {&code, b})).step;
}

int sign(Code& code, int x) {
  const Term v{&code, x};
  return select(v > 0.0F, number(v, 1.0F), select(v < 0.0F, number(v, -1.0F), v)).step;
}

int to_int32(Code& code, int x) {
  const Term v{&code, x};
  const Term high = select(v < 2147483648.0F, apply(Op::to_int, v), bits(v, 0x7FFFFFFFU));
  return select(is_nan(v), bits(v, 0), high).step;
}

int exp(Code& code, int x) { return exp_of({&code, x}).step; }
int exp2(Code& code, int x) { return exp2_of({&code, x}).step; }
int expm1(Code& code, int x) { return expm1_of({&code, x}).step; }
int log(Code& code, int x) { return log_of({&code, x}).step; }
int log1p(Code& code, int x) { return log1p_of({&code, x}).step; }
int tanh(Code& code, int x) { return tanh_of({&code, x}).step; }
int logistic(Code& code, int x) { return logistic_of({&code, x}).step; }
int erf(Code& code, int x) { return erf_of({&code, x}).step; }
int erfc(Code& code, int x) { return erfc_of({&code, x}).step; }

}  // namespace lockstep::backend::jit::functions
