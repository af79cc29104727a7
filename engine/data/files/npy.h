#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <lockstep/batches.h>

namespace lockstep::data {

/// What a .npy file's header says.
struct NpyHeader {
  ArrayType type;
  bool is_fortran = false;
  bool is_big_endian = false;
  std::size_t data = 0;  ///< Where the elements begin.
};

/// Throws DataError for a header that does not fit the file, whose elements must end where the file does.
NpyHeader parse_npy_header(std::span<const std::byte> bytes, const std::string& file, const std::string& who);
HostTable parse_npy(std::span<const std::byte> bytes, const std::string& file, const std::string& who);

}  // namespace lockstep::data
