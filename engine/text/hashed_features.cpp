#include <bit>
#include <cstring>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/sources.h>
#include <lockstep/text/hashed_features.h>

#include "engine/text/fingerprints.h"

namespace lockstep::data {
namespace {

void check_bins(const char* who, std::int64_t bins) {
  if (bins < 1) throw ValueError(fmt::format("[{}] bins is {}; give at least 1", who, bins));
}

std::uint64_t bin_of(std::uint64_t hash, std::int64_t bins) { return hash % static_cast<std::uint64_t>(bins); }

/// The hash of two hashes, in an order.
std::uint64_t hashes_joined(std::uint64_t first, std::uint64_t second) {
  constexpr std::uint64_t factor = 0xC6A4A7935BD1E995U;
  const auto mixed = [](std::uint64_t v) { return v ^ (v >> 47); };
  std::uint64_t hash = first ^ factor;
  hash ^= mixed(second * factor) * factor;
  hash *= factor;
  return mixed(mixed(hash) * factor);
}

}  // namespace

std::int64_t hash_bin(std::string_view word, const HashOptions& options) {
  check_bins("hash_bin", options.bins);
  // With a single bin there is none to keep for the mask.
  const bool masks = options.mask && options.bins > 1;
  if (masks && word == *options.mask) return 0;
  const std::uint64_t hash =
      options.salt ? sip_hash(word, options.salt->first, options.salt->second) : fingerprint64(word);
  return static_cast<std::int64_t>(bin_of(hash, options.bins - (masks ? 1 : 0))) + (masks ? 1 : 0);
}

std::int64_t hash_bin(std::int64_t number, const HashOptions& options) {
  return hash_bin(std::to_string(number), options);
}

HostTable hash_bins(const HostTable& numbers, const HashOptions& options) {
  check_bins("hash_bins", options.bins);
  const auto table_of = [&](const auto& values) {
    std::vector<std::int32_t> bins;
    bins.reserve(values.size());
    for (const auto value : values) {
      bins.push_back(static_cast<std::int32_t>(hash_bin(static_cast<std::int64_t>(value), options)));
    }
    return host_table(bins, numbers.type.shape);
  };
  if (options.bins > INT32_MAX) {
    throw ValueError(fmt::format("[hash_bins] bins is {}; int32 holds fewer than 2^31", options.bins));
  }
  switch (numbers.type.dtype) {
    case DType::int32:
      return table_of(elements<std::int32_t>(numbers));
    case DType::int64:
      return table_of(elements<std::int64_t>(numbers));
    case DType::uint8:
      return table_of(elements<std::uint8_t>(numbers));
    default:
      throw DtypeError(
          fmt::format("[hash_bins] the table is {}; give one of int32, int64 or uint8", to_string(numbers.type)));
  }
}

std::int64_t hash_crossing(const std::vector<HashedFeature>& features, std::int64_t bins) {
  check_bins("hash_crossing", bins);
  if (features.empty()) throw ValueError("[hash_crossing] no feature is given; give at least one");
  std::uint64_t hash = 0xDECAFCAFFEU;  // TensorFlow's key
  for (const HashedFeature& feature : features) {
    const auto* number = std::get_if<std::int64_t>(&feature);
    const std::uint64_t own =
        number != nullptr ? static_cast<std::uint64_t>(*number) : fingerprint64(std::get<std::string>(feature));
    hash = hashes_joined(hash, own);
  }
  return static_cast<std::int64_t>(bin_of(hash, bins));
}

}  // namespace lockstep::data
