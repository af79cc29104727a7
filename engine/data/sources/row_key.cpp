#include <algorithm>
#include <array>
#include <string>

#include <lockstep/backend/threefry.h>
#include <lockstep/error.h>
#include <lockstep/sources.h>

#include "engine/data/threefry_loop.h"

namespace lockstep::data {
namespace {

constexpr std::uint32_t row_domain = 0x7F4A'7C15;

}  // namespace

RowKey::RowKey(std::uint64_t seed, std::uint64_t epoch, std::int64_t row) {
  const auto index = static_cast<std::uint64_t>(row);
  const auto words = backend::threefry2x32(
      epoch_key(seed, epoch, row_domain), {static_cast<std::uint32_t>(index >> 32), static_cast<std::uint32_t>(index)});
  words_[0] = words[0];
  words_[1] = words[1];
}

std::vector<RowKey> RowKey::of_rows(std::uint64_t seed, std::uint64_t epoch, std::span<const std::int64_t> rows) {
  constexpr std::size_t lanes = 32;
  const auto of_epoch = epoch_key(seed, epoch, row_domain);
  std::vector<RowKey> keys(rows.size(), RowKey());
  std::uint32_t x[lanes], y[lanes];
  for (std::size_t first = 0; first < rows.size(); first += lanes) {
    const std::size_t count = std::min(lanes, rows.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const auto row = static_cast<std::uint64_t>(rows[first + i]);
      x[i] = static_cast<std::uint32_t>(row >> 32);
      y[i] = static_cast<std::uint32_t>(row);
    }
    threefry_each(of_epoch, x, y, count);
    for (std::size_t i = 0; i < count; ++i) {
      keys[first + i].words_[0] = x[i];
      keys[first + i].words_[1] = y[i];
    }
  }
  return keys;
}

RowKey RowKey::fold_in(std::uint32_t n) const {
  const auto words = backend::threefry2x32({words_[0], words_[1]}, {row_domain, n});
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
