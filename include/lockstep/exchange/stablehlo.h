#pragma once

#include <string>
#include <string_view>

#include <lockstep/export.h>
#include <lockstep/function.h>

namespace lockstep::exchange {

/// The program as StableHLO's text (https://openxla.org/stablehlo/spec), a module whose `main` has the function's inputs and
/// outputs, keys as their words, uint32[..., 2]; arrays that it captured are constants in it. Throws IrError naming an op
/// that has no form there: collectives, effects, draws of gamma, Poisson and binomial variates, special functions that CHLO
/// has not, custom ops and decompositions of matrices.
LOCKSTEP_API std::string to_stablehlo(const Function& function);

/// A function of the inputs of a module's public function (`main`), traced with the ops that there are here. Reads the text
/// of jax.export's mlir_module(), in MLIR's pretty and generic forms; composites are taken for the op of their name, or
/// written out by their decomposition. Throws IrError with the line for what does not parse, and naming an op, a comparator
/// or a custom_call target that there is not here.
LOCKSTEP_API Function from_stablehlo(std::string_view text);

}  // namespace lockstep::exchange
