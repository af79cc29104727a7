#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/array.h>
#include <lockstep/export.h>
#include <lockstep/parallel.h>

/// Counter-based random numbers: Threefry-2x32 with JAX 0.10.2's partitionable layout, so that keys, bits and uniforms
/// equal JAX's. A key is an array of dtype `key`; drawing twice from one key gives the same values.
namespace lockstep::random {

/// How a draw behaves inside a map. One of the two must be said there: either every replica draws its own block of one
/// larger array (`Cut`), or all replicas draw the same values.
struct Cut {
  std::int64_t dim = 0;
  AxisSet axes = {};
};
struct Placement {
  std::optional<Cut> cut = {};
  bool same_on_all = false;
};
inline const Placement same_on_all{.cut = {}, .same_on_all = true};

/// Key with words (seed >> 32, seed & 0xffffffff).
LOCKSTEP_API Array key(std::uint64_t seed);
/// n new keys, shape [n].
LOCKSTEP_API Array split(const Array& key, std::int64_t n = 2);
LOCKSTEP_API Array fold_in(const Array& key, const Operand& data);
/// The key's two words, uint32[..., 2], and back.
LOCKSTEP_API Array key_data(const Array& key);
LOCKSTEP_API Array wrap_key_data(const Array& words);

/// Unsigned integers of 8, 16, 32 or 64 random bits.
LOCKSTEP_API Array bits(const Array& key, const Shape& shape, int width = 32, const Placement& placement = {});
/// Uniform on [low, high).
LOCKSTEP_API Array uniform(const Array& key, const Shape& shape, DType dtype = float32, const Operand& low = 0.0,
                           const Operand& high = 1.0, const Placement& placement = {});
LOCKSTEP_API Array normal(const Array& key, const Shape& shape, DType dtype = float32, const Placement& placement = {});
/// Standard normal conditioned on [low, high].
LOCKSTEP_API Array truncated_normal(const Array& key, double low, double high, const Shape& shape,
                                    DType dtype = float32, const Placement& placement = {});
/// bool: true with probability p. p outside [0, 1] or NaN throws ValueError.
LOCKSTEP_API Array bernoulli(const Array& key, double p, const Shape& shape, const Placement& placement = {});

}  // namespace lockstep::random
