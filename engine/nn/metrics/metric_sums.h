#pragma once

#include <string_view>

#include <lockstep/weighted.h>

// What values are made of at the end.
namespace lockstep::nn {

/// psum over those of the bound axes along which x varies. Throws MeshError, beginning with `[of]`, inside a vmap over
/// rows that differ between shards.
Array reduced(std::string_view of, const Array& x);

/// A metric's sums over all shards, in float64. Throws ShapeError, beginning with `[of]`, unless they have rank 2 and
/// that many rows (0: as many as columns).
Array total_sums(std::string_view of, const Weighted& sums, std::int64_t rows, std::string_view made_by);

/// a / b, 0 where b is 0.
Array ratio(const Array& a, const Array& b);

}  // namespace lockstep::nn
