#include <algorithm>
#include <bit>
#include <cstddef>

#include <lockstep/backend/threefry.h>
#include <lockstep/batches.h>
#include <lockstep/error.h>

#include "engine/data/gathered_rows.h"
#include "engine/data/threefry_loop.h"

namespace lockstep::data {
namespace {

constexpr int rounds = 6;
constexpr std::uint32_t permutation_domain = 0x9E37'79B9;

/// A network over a power of two, on two halves.
struct Feistel {
  std::array<std::uint32_t, 2> key;
  int half_bits = 0;
};

/// Over at least n values.
Feistel network_of(std::uint64_t seed, std::uint64_t epoch, std::int64_t n) {
  const int bits = std::bit_width(static_cast<std::uint64_t>(n - 1));
  return {epoch_key(seed, epoch, permutation_domain), bits < 2 ? 1 : (bits + 1) / 2};
}

constexpr std::size_t lanes = 32;  ///< Values that are enciphered together.

void encipher(const Feistel& of, std::uint64_t* values, std::size_t count) {
  const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << of.half_bits) - 1);
  std::uint32_t left[lanes], right[lanes], x[lanes], y[lanes];
  for (std::size_t i = 0; i < count; ++i) {
    left[i] = static_cast<std::uint32_t>(values[i] >> of.half_bits);
    right[i] = static_cast<std::uint32_t>(values[i]) & mask;
  }
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::fill_n(x, count, round);
    std::copy_n(right, count, y);
    threefry_each(of.key, x, y, count);
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t mixed = left[i] ^ (x[i] & mask);
      left[i] = right[i];
      right[i] = mixed;
    }
  }
  for (std::size_t i = 0; i < count; ++i) values[i] = std::uint64_t{left[i]} << of.half_bits | right[i];
}

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t n) : key_{}, n_(n) {
  if (n <= 0) {
    throw ValueError("[permutation] n is " + std::to_string(n) + "; there must be at least one position");
  }
  const Feistel network = network_of(seed, epoch, n);
  key_[0] = network.key[0];
  key_[1] = network.key[1];
  half_bits_ = network.half_bits;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  if (position < 0 || position >= n_) {
    throw ValueError("[permutation] position " + std::to_string(position) + " is outside [0, " + std::to_string(n_) +
                     ")");
  }
  const Feistel network{{key_[0], key_[1]}, half_bits_};
  auto value = static_cast<std::uint64_t>(position);
  do {
    encipher(network, &value, 1);
  } while (value >= static_cast<std::uint64_t>(n_));  // cycle-walking: the block cipher permutes a larger power of two
  return static_cast<std::int64_t>(value);
}

void permute(std::uint64_t seed, std::uint64_t epoch, std::int64_t n, std::int64_t first,
             std::span<std::int64_t> rows) {
  const Feistel network = network_of(seed, epoch, n);
  std::uint64_t values[lanes] = {};
  std::size_t places[lanes] = {};
  std::size_t walking = 0;  // values that are not yet below n, in front
  for (std::size_t next = 0; next < rows.size() || walking > 0;) {
    for (; walking < lanes && next < rows.size(); ++walking, ++next) {
      values[walking] = static_cast<std::uint64_t>(first) + next;
      places[walking] = next;
    }
    encipher(network, values, walking);
    std::size_t left = 0;
    for (std::size_t i = 0; i < walking; ++i) {
      if (values[i] < static_cast<std::uint64_t>(n)) {
        rows[places[i]] = static_cast<std::int64_t>(values[i]);
        continue;
      }
      values[left] = values[i];
      places[left++] = places[i];
    }
    walking = left;
  }
}

}  // namespace lockstep::data
