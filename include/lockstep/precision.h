#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/export.h>

namespace lockstep {

/// In which dtype a compiled function multiplies.
///
/// `bfloat16` concerns products (dot_general) and convolutions of float32 arrays, with their derivatives: operands are
/// rounded to bfloat16 (to nearest, ties to even), sums are taken in float32, and results are rounded to bfloat16, but
/// for gradients of weights, which stay float32. What is kept for the backward pass of such ops takes half the memory.
/// Everything else (parameters, optimizer, attention, reductions, losses, normalisations) is float32 as before, and so
/// are all arguments and results. Ops of other dtypes do not change. How fast it is depends on the processor: one whose
/// own instructions multiply bfloat16 no faster than float32 gains memory alone.
enum class Precision : std::uint8_t { float32, bfloat16 };

/// "float32" or "bfloat16".
LOCKSTEP_API std::string_view name(Precision precision);
/// Reads such a name. Throws ValueError listing them.
LOCKSTEP_API Precision parse_precision(std::string_view text);

}  // namespace lockstep
