#pragma once

#include <cstdint>
#include <utility>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/ops.h>

// Divisors, exponents and phases, as in jax.numpy.
namespace lockstep {

/// The greatest common divisor, 0 or more, of integers of one promoted dtype, by Euclid's algorithm in a while_loop;
/// gcd(0, x) is |x|. Throws DtypeError for what are no integers.
LOCKSTEP_API Array gcd(const ArrayOperand& a, const ArrayOperand& b);
/// The least common multiple, likewise; 0 where one is 0. It may wrap.
LOCKSTEP_API Array lcm(const ArrayOperand& a, const ArrayOperand& b);

/// m and e (int32) with x = m 2^e and 1/2 <= |m| < 1, exactly; zeros, infinities and NaN as they are, with e = 0. Of
/// floats, to which integers are converted; dm/dx is 2^-e.
LOCKSTEP_API std::pair<Array, Array> frexp(const ArrayOperand& x);
/// x 2^n, n integers: rounded once where it is neither too small nor too large for the dtype. Throws DtypeError for an
/// exponent that is no integer.
LOCKSTEP_API Array ldexp(const ArrayOperand& x, const ArrayOperand& n);

/// Angles along an axis with multiples of `period` added, so that neighbours are at most half a period apart. (numpy.unwrap
/// with the default discont)
LOCKSTEP_API Array unwrap(const ArrayOperand& x, std::int64_t axis = -1, double period = 6.283185307179586);

}  // namespace lockstep
