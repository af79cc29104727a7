#pragma once

#include <cstdint>

#include <lockstep/ops.h>
#include <lockstep/optim.h>

// What an optimizer keeps of the gradients so far.
namespace lockstep::optim {

/// In a dtype that holds sums and small numbers: float32 for what is narrower.
inline Array wide(const Array& x) { return convert(x, promote(x.dtype(), float32)); }

/// Slots of at least float32: a narrower one would hold neither an average that moves slowly nor a square.
Tree zeros_of(const Tree& params);

enum class Sign : std::uint8_t { any, positive };

/// A decaying average with 0 for what is subnormal. A weight whose gradient has become zero would else have a subnormal
/// average for ever, since 0.9 times a few of the smallest number is rounded to as many, and processors take a hundred
/// times as long to multiply such numbers.
Array decaying(const Array& average, Sign sign = Sign::any);

/// The number of updates made, before the first.
Array first_count();

}  // namespace lockstep::optim
