#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <lockstep/types.h>

#include "engine/ir/primitive.h"

// Values that JAX computed, kept in a file, and how closely they are met.
namespace lockstep::tests::golden {

/// By case: the hash of its inputs, 8 bytes, then every result's bytes. A gzipped safetensors file.
std::map<std::string, std::vector<std::byte>> read_stored(const std::filesystem::path& path);

/// Two digits a byte, as the generators read arrays.
std::string hex(std::span<const std::byte> bytes);

/// What two values may differ by: |a - b| <= bound * (1 + |b|). Zero: equal.
double bound(bool derivative, DType dtype);

/// The first element that differs by more than the bound, or -1. NaN equals NaN.
std::int64_t first_difference_within(const ir::ReferenceArray& a, const ir::ReferenceArray& b, double bound);

/// One element in full precision.
std::string element_text(const ir::ReferenceArray& array, std::int64_t at);

}  // namespace lockstep::tests::golden
