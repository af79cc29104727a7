#pragma once

#include <cstdint>
#include <vector>

#include <lockstep/data.h>

namespace lockstep::data {

/// Throws ValueError unless a batch may have so many rows.
void check_batch(std::int64_t batch);

/// The chosen rows of a table with all its bytes, the last one repeated up to `size`. Throws DataError where memory for
/// them is not to be had.
Array gathered(const HostTable& table, const std::vector<std::int64_t>& rows, std::int64_t size);

/// 1 for the first `real` rows, then 0: f32[size].
Array real_rows(std::size_t real, std::int64_t size);

}  // namespace lockstep::data
