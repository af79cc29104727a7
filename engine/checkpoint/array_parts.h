#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include <lockstep/array.h>

namespace lockstep::checkpoint {

/// Hands out an array's bytes in order, a part at a time: where they lie, without a copy of the whole, so that what reads
/// them several times finds them in the cache. All parts but the last are multiples of 8 bytes.
void for_each_part(const Array& array, const std::function<void(std::span<const std::byte>)>& take);

}  // namespace lockstep::checkpoint
