#pragma once

#include <cstdint>
#include <string>
#include <vector>

// Files of data, whole or damaged, byte by byte.
namespace lockstep::tests {

inline std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

inline std::string little_endian(std::uint64_t value, int bytes = 8) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

/// An IDX file with a type's code and so many elements along each dimension.
inline std::string idx(char type, const std::vector<std::uint32_t>& extents, const std::string& body) {
  std::string bytes{'\0', '\0', type, static_cast<char>(extents.size())};
  for (const std::uint32_t extent : extents) bytes += big_endian(extent);
  return bytes + body;
}

/// NumPy's, of version 1 if no other is given.
inline std::string npy(const std::string& header, const std::string& body, char version = 1) {
  return std::string("\x93NUMPY") + version + '\0' + little_endian(header.size(), version == 1 ? 2 : 4) + header + body;
}

inline std::string safetensors(const std::string& header, const std::string& data = "") {
  return little_endian(header.size()) + header + data;
}

}  // namespace lockstep::tests
