#pragma once

#include <cstddef>
#include <string_view>

namespace lockstep::data {

/// Unicode's general categories L and N, and its property White_Space.
bool is_letter(char32_t c);
bool is_number(char32_t c);
bool is_white_space(char32_t c);

/// One character of UTF-8 text and its bytes. Where there is no valid one, the byte as itself with `is_valid` false.
struct CodePoint {
  char32_t value = 0;
  std::size_t size = 1;
  bool is_valid = false;
};
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, true};
  const std::size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() - at < size) return {first, 1, false};
  char32_t value = first & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {first, 1, false};
    value = value << 6U | (byte(i) & 0x3FU);
  }
  const char32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  if (value < least || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {first, 1, false};
  return {value, size, true};
}

}  // namespace lockstep::data
