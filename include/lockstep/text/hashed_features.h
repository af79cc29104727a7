#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <lockstep/batches.h>
#include <lockstep/export.h>

// Words and numbers of an open set as one of so many bins, for functions of `map_rows`.
namespace lockstep::data {

/// How a word finds its bin.
struct HashOptions {
  std::int64_t bins = 0;  ///< At least 1; must be given.
  /// Two numbers that nobody else knows, so that nobody can choose words of one bin: SipHash-2-4 (Aumasson and Bernstein
  /// 2012) with them. Nothing: FarmHash' Fingerprint64.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> salt = std::nullopt;
  std::optional<std::string> mask = std::nullopt;  ///< A word that has bin 0, which no other one has then.
};
/// The bin, of [0, bins), that TensorFlow and Keras' Hashing have. Throws ValueError for bins below 1.
LOCKSTEP_API std::int64_t hash_bin(std::string_view word, const HashOptions& options);
/// A number as its decimal digits.
LOCKSTEP_API std::int64_t hash_bin(std::int64_t number, const HashOptions& options);
/// Each element of a table of integers: int32 of its shape. Throws DtypeError for another dtype.
LOCKSTEP_API HostTable hash_bins(const HostTable& numbers, const HashOptions& options);

/// One of several features that are crossed.
using HashedFeature = std::variant<std::int64_t, std::string>;
/// The bin of all features together (Keras' HashedCrossing). Throws ValueError for bins below 1, and for no feature.
LOCKSTEP_API std::int64_t hash_crossing(const std::vector<HashedFeature>& features, std::int64_t bins);

}  // namespace lockstep::data
