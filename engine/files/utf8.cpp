#include "engine/files/utf8.h"

#include <cstddef>
#include <cstdint>

namespace lockstep::files {
namespace {

/// How many bytes the first character of the text has; 0 where it is none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (size == 0) return 0;
  std::uint32_t character = first & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3FU);
  }
  const std::uint32_t least = size == 4 ? 0x10000 : size == 3 ? 0x800 : 0x80;
  const bool is_surrogate = character >= 0xD800 && character < 0xE000;
  return character < least || character > 0x10FFFF || is_surrogate ? 0 : size;
}

}  // namespace

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::size_t size = character_bytes(bytes);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

bool is_name(std::string_view bytes) {
  return !bytes.empty() && bytes.find('\0') == std::string_view::npos && is_utf8(bytes);
}

}  // namespace lockstep::files
