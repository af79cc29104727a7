#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/error.h>
#include <lockstep/types.h>

namespace lockstep::data {

static_assert(std::endian::native == std::endian::little, "numbers are read as they lie in little-endian files");

/// Deflate turns one byte into at most so many.
inline constexpr std::uint64_t largest_deflate_ratio = 1032;

/// The bytes of a file, or of a part of one, for a reader: every read is checked, every error says where.
class FileBytes {
 public:
  FileBytes(std::span<const std::byte> bytes, std::string file, std::string who)
      : bytes_(bytes), file_(std::move(file)), who_(std::move(who)) {}

  std::size_t size() const { return bytes_.size(); }
  const std::string& file() const { return file_; }
  const std::string& who() const { return who_; }

  [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const {
    throw DataError("[" + who_ + "] " + file_ + ", byte " + std::to_string(offset) + ": " + what);
  }
  std::span<const std::byte> part(std::uint64_t begin, std::uint64_t size, std::string_view field) const {
    if (begin > bytes_.size() || size > bytes_.size() - begin) {
      fail(begin, "the file ends in the " + std::string(field) + ": " + std::to_string(size) + " bytes expected, " +
                      std::to_string(begin > bytes_.size() ? 0 : bytes_.size() - begin) + " found");
    }
    return bytes_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(size));
  }
  template <class T>
  T number(std::uint64_t begin, std::string_view field) const {
    T value{};
    std::memcpy(&value, part(begin, sizeof(T), field).data(), sizeof(T));
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::string file_;
  std::string who_;
};

/// What a file says, shortened and without bytes that do not print, for an error.
inline std::string shown(std::string_view text) {
  constexpr std::size_t longest = 40;
  std::string safe = "'";
  for (const char c : text.substr(0, longest)) safe += c >= ' ' && c <= '~' ? c : '?';
  return safe + (text.size() > longest ? "...'" : "'");
}

}  // namespace lockstep::data
