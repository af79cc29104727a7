#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::exchange {

/// Throws ValueError for a name of a tensor that readers would refuse: no UTF-8, NUL in it, none or more than 65535 bytes.
void check_name(const std::string& who, const std::string& file, std::string_view name);

/// Makes a ZIP archive of stored entries (PKWARE's APPNOTE 6.3), each with its CRC-32, the same bytes for the same entries.
/// Elements of an entry begin at a multiple of 64, as PyTorch has them, so that they may be mapped.
class ZipWriter {
 public:
  /// `who` is the function that errors name, `file` the archive.
  ZipWriter(std::string who, std::string file) : who_(std::move(who)), file_(std::move(file)) {}

  /// Throws DataError where the archive would be 4 GiB or larger, which needs another form of it.
  void add(std::string_view name, std::span<const std::byte> bytes);
  void add(std::string_view name, std::string_view text);
  /// The archive.
  std::vector<std::byte> finish() &&;

 private:
  void check_size(std::size_t more) const;

  std::string who_;
  std::string file_;
  std::vector<std::byte> archive_;
  std::vector<std::byte> directory_;
  std::uint16_t entries_ = 0;
};

}  // namespace lockstep::exchange
