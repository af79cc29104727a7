#pragma once

#include <cstdint>
#include <vector>

// The type of lists of dimensions.
namespace lockstep::tests {

/// Dimensions or extents, as attributes of ops hold them.
using Dims = std::vector<std::int64_t>;

}  // namespace lockstep::tests
