#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

// Dimensions as attributes list them.
namespace lockstep::backend::cpu {

using Dims = std::vector<std::int64_t>;

inline bool contains(const Dims& dims, std::int64_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

}  // namespace lockstep::backend::cpu
