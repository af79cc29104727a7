#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/types.h>

#include "engine/ir/primitive.h"

// Values that JAX computed, kept in a file, and how closely they are met.
namespace lockstep::tests::golden {

/// Whose values are stored.
inline constexpr std::string_view jax_version = "0.10.2";

/// A case's stored results, in the order in which its runs give them.
struct StoredCase {
  std::string hash;  ///< Of everything that they depend on, in hexadecimal digits.
  std::vector<std::string> results;
};

/// Every case of every text file of a folder, by name. A file has a line "<case> <hash>" for each, and behind it, indented,
/// a line "<run> | <type> | <values>" for each result; the generators write them.
std::map<std::string, StoredCase> read_stored(const std::filesystem::path& folder);

/// The values of a result's line. Throws ValueError where they are of another run or type.
ir::ReferenceArray values_of(const std::string& line, std::string_view run, const ArrayType& type);

/// What a hash is in the files.
std::string hash_text(std::uint64_t hash);

/// Two digits a byte, as the generators read arrays.
std::string hex(std::span<const std::byte> bytes);

/// What two values may differ by: |a - b| <= bound * (1 + |b|). Zero: equal.
double bound(bool derivative, DType dtype);

/// The first element that differs by more than the bound, or -1. NaN equals NaN.
std::int64_t first_difference_within(const ir::ReferenceArray& a, const ir::ReferenceArray& b, double bound);

/// One element in full precision.
std::string element_text(const ir::ReferenceArray& array, std::int64_t at);

}  // namespace lockstep::tests::golden
