#include <bit>

#include <lockstep/backend/threefry.h>
#include <lockstep/batches.h>
#include <lockstep/error.h>

namespace lockstep::data {
namespace {

constexpr int rounds = 6;
/// Keeps these keys apart from those that random::fold_in derives from the same seed.
constexpr std::uint32_t domain = 0x9E37'79B9;

}  // namespace

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::int64_t n) : key_{}, n_(n) {
  if (n <= 0) {
    throw ValueError("[permutation] n is " + std::to_string(n) + "; there must be at least one position");
  }
  const auto words =
      backend::threefry2x32({static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(seed)},
                            {static_cast<std::uint32_t>(epoch >> 32) ^ domain, static_cast<std::uint32_t>(epoch)});
  key_[0] = words[0];
  key_[1] = words[1];
  const int bits = std::bit_width(static_cast<std::uint64_t>(n - 1));
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  if (position < 0 || position >= n_) {
    throw ValueError("[permutation] position " + std::to_string(position) + " is outside [0, " + std::to_string(n_) +
                     ")");
  }
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(position);
  do {
    std::uint64_t left = value >> half_bits_;
    std::uint64_t right = value & mask;
    for (std::uint32_t round = 0; round < rounds; ++round) {
      const auto words = backend::threefry2x32({key_[0], key_[1]}, {round, static_cast<std::uint32_t>(right)});
      const std::uint64_t mixed = left ^ (words[0] & mask);
      left = right;
      right = mixed;
    }
    value = left << half_bits_ | right;
  } while (value >= static_cast<std::uint64_t>(n_));  // cycle-walking: the block cipher permutes a larger power of two
  return static_cast<std::int64_t>(value);
}

}  // namespace lockstep::data
