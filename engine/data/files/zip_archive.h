#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <lockstep/export.h>

namespace lockstep::data {

/// One file of an archive.
struct ZipEntry {
  std::string name;
  std::uint64_t begin = 0;  ///< Of its bytes in the archive.
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint32_t crc = 0;
  bool is_deflated = false;
};

/// The directory of a ZIP archive (PKWARE's APPNOTE 6.3), with ZIP64's long sizes; stored and deflated entries. Throws
/// DataError for anything else, for entries that overlap or repeat a name, and for what lies outside of the file.
LOCKSTEP_API std::vector<ZipEntry> zip_entries(std::span<const std::byte> bytes, const std::string& file,
                                               const std::string& who);

/// The first `count` bytes of an entry, or fewer where it is shorter or damaged: nothing of it is checked.
std::vector<std::byte> unpack_beginning(std::span<const std::byte> bytes, const ZipEntry& entry, std::uint64_t count);

/// An entry's bytes, which must have the size and CRC-32 that the directory says. Memory grows with what is inflated.
LOCKSTEP_API std::vector<std::byte> unpack(std::span<const std::byte> bytes, const ZipEntry& entry,
                                           const std::string& file, const std::string& who);

/// Throws as `unpack` does, without keeping the bytes.
void check_packed(std::span<const std::byte> bytes, const ZipEntry& entry, const std::string& file,
                  const std::string& who);

}  // namespace lockstep::data
