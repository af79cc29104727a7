#include "engine/ops/linalg/dot_dims.h"

#include <algorithm>
#include <cstddef>

namespace lockstep::ops {

namespace {

bool contains(const Dims& dims, std::int64_t dim) { return std::find(dims.begin(), dims.end(), dim) != dims.end(); }

}  // namespace

DotDims dot_dims(const Attrs& attrs, const std::array<int, 2>& ranks) {
  const auto& contract = attrs.get<std::vector<Dims>>("contract");
  const auto& batch = attrs.get<std::vector<Dims>>("batch");
  DotDims dims;
  for (std::size_t side = 0; side < 2; ++side) {
    dims.contract[side] = contract.at(side);
    dims.batch[side] = batch.at(side);
    for (std::int64_t i = 0; i < ranks[side]; ++i) {
      if (!contains(contract[side], i) && !contains(batch[side], i)) dims.free[side].push_back(i);
    }
  }
  return dims;
}

Attrs dot_attrs(const std::array<Dims, 2>& contract, const std::array<Dims, 2>& batch) {
  return {{"contract", std::vector<Dims>{contract[0], contract[1]}}, {"batch", std::vector<Dims>{batch[0], batch[1]}}};
}

}  // namespace lockstep::ops
