#pragma once

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/model.h>

// Layers that draw in training. Draws of a row do not depend on how the batch is cut; state rng.
namespace lockstep {

/// In training each element is 0 with probability `rate`, else scaled by 1 / (1 - rate); the mask of a row does not
/// depend on how the batch is cut. Identity in evaluation. State rng. Throws ValueError for a rate outside [0, 1) or
/// NaN.
LOCKSTEP_API Array dropout(const Scope& scope, const ArrayOperand& x, double rate);

/// dropout of whole channels: one draw for each row and channel of x [N, ..., C], the same at all places. Errors as of
/// dropout. Tompson et al. 2015.
LOCKSTEP_API Array spatial_dropout(const Scope& scope, const ArrayOperand& x, double rate);
/// dropout for `selu`: dropped elements become its limit at -inf, and all is scaled so that mean and variance stay 0
/// and 1. Errors as of dropout. Klambauer et al. 2017.
LOCKSTEP_API Array alpha_dropout(const Scope& scope, const ArrayOperand& x, double rate);
/// x times normal numbers of mean 1 and standard deviation sqrt(rate / (1 - rate)) in training; x in evaluation. Errors
/// as of dropout. Srivastava et al. 2014.
LOCKSTEP_API Array gaussian_dropout(const Scope& scope, const ArrayOperand& x, double rate);
/// x plus normal numbers of mean 0 in training; x in evaluation. State rng. Throws ValueError for a negative `stddev`.
LOCKSTEP_API Array gaussian_noise(const Scope& scope, const ArrayOperand& x, double stddev);

}  // namespace lockstep
