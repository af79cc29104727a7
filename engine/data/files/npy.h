#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include <lockstep/batches.h>
#include <lockstep/error.h>

namespace lockstep::data {

/// What a .npy file's header says.
struct NpyHeader {
  ArrayType type;
  bool is_fortran = false;
  bool is_big_endian = false;
  std::size_t data = 0;  ///< Where the elements begin.
};

/// A header of an array whose elements are no numbers: texts, dates, objects, fields.
struct OtherElements : DataError {
  using DataError::DataError;
};

/// At most so many bytes are a header.
inline constexpr std::uint64_t longest_npy_header = (1 << 16) + 12;

/// Throws OtherElements, and DataError for a header that does not fit the file, whose elements must end where it does. Of a file of which
/// only the beginning is there, `size` says how many bytes it has.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& file, const std::string& who,
                           std::optional<std::uint64_t> size = std::nullopt);
HostTable parse_npy(std::span<const std::byte> bytes, const std::string& file, const std::string& who);

}  // namespace lockstep::data
