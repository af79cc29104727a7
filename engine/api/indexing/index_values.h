#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <lockstep/array.h>
#include <lockstep/indexing.h>

namespace lockstep::api {

/// The attribute `mode` of gather and scatter. Throws ValueError naming `op` for wrap.
std::string mode_text(std::string_view op, IndexMode mode);
/// The bounds of a dtype: infinities for floats.
Operand least_value(DType dtype);
Operand largest_value(DType dtype);
/// The elements where `inside` holds, else what a read outside gives: `fill`, or the dtype's own fill value.
Array filled_outside(const Array& inside, const Array& elements, const std::optional<Operand>& fill);

/// Indices as int64 (int32 where the extent allows it and they are no wider); negative ones count from the end.
Array from_the_end(const Array& indices, std::int64_t extent);
/// Integers in at least 32 bits: a dtype that holds every index need not hold the extent that it is compared with.
Array in_at_least_32_bits(const Array& integers);
/// Integers clipped to [low, high], low <= 0; where their dtype has no sign, to what of it has none.
Array clip_integers(const Array& integers, std::int64_t low, std::int64_t high);
/// Whether each index lies in [0, extent).
Array in_bounds(const Array& indices, std::int64_t extent);
/// The starts of a slice of x, one a dimension; negative ones count from the end.
std::vector<Array> starts_of(const Array& x, std::span<const Array> start);
/// Throws DtypeError naming `op` and what the array is for one that is not of integers.
void expect_integers(std::string_view op, const Array& x, std::string_view what);
/// Likewise, of indices, among which a mask is no kind.
void expect_indices(std::string_view op, const Array& indices);

}  // namespace lockstep::api
