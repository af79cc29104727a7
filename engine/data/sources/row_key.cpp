#include <string>

#include <lockstep/backend/threefry.h>
#include <lockstep/error.h>
#include <lockstep/sources.h>

namespace lockstep::data {
namespace {

/// Keeps these keys apart from those of Permutation and of random::fold_in.
constexpr std::uint32_t domain = 0x7F4A'7C15;

}  // namespace

RowKey::RowKey(std::uint64_t seed, std::uint64_t epoch, std::int64_t row) {
  const auto index = static_cast<std::uint64_t>(row);
  const auto of_epoch =
      backend::threefry2x32({static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(seed)},
                            {static_cast<std::uint32_t>(epoch >> 32) ^ domain, static_cast<std::uint32_t>(epoch)});
  const auto words =
      backend::threefry2x32(of_epoch, {static_cast<std::uint32_t>(index >> 32), static_cast<std::uint32_t>(index)});
  words_[0] = words[0];
  words_[1] = words[1];
}

RowKey RowKey::fold_in(std::uint32_t n) const {
  const auto words = backend::threefry2x32({words_[0], words_[1]}, {domain, n});
  RowKey key;
  key.words_[0] = words[0];
  key.words_[1] = words[1];
  return key;
}

std::uint64_t RowKey::bits(std::uint64_t counter) const {
  return backend::threefry_bits({words_[0], words_[1]}, counter);
}

double RowKey::uniform(std::uint64_t counter) const { return static_cast<double>(bits(counter) >> 11) * 0x1p-53; }

std::int64_t RowKey::below(std::int64_t n, std::uint64_t counter) const {
  if (n < 1) throw ValueError("[below] n is " + std::to_string(n) + "; it must be at least 1");
  const auto product = static_cast<unsigned __int128>(bits(counter)) * static_cast<std::uint64_t>(n);
  return static_cast<std::int64_t>(product >> 64);
}

}  // namespace lockstep::data
