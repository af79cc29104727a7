#pragma once

#include <lockstep/types.h>

#include "engine/core/stable_hash.h"

namespace lockstep::api {

/// What tells concrete arrays apart for a cache: dtype and shape.
inline void add_type(StableHash& hash, const ArrayType& type) {
  hash.add(static_cast<std::uint64_t>(type.dtype));
  hash.add(static_cast<std::uint64_t>(type.shape.rank()));
  for (const std::int64_t extent : type.shape) hash.add(static_cast<std::uint64_t>(extent));
}

}  // namespace lockstep::api
