#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <lockstep/array.h>
#include <lockstep/export.h>

namespace lockstep::checkpoint {

/// What becomes of dtypes that the format has no name for: random keys and complex numbers.
enum class Unnamed : std::uint8_t {
  refused,
  in_parts,  ///< With a last dimension of 2; the dtype stands in the file's metadata.
};

/// The length of the header and the header of a file in the safetensors format with these arrays (by name), whose data
/// follow in order of name, one behind the other.
std::vector<std::byte> safetensors_header(const std::map<std::string, ArrayType>& arrays,
                                          Unnamed unnamed = Unnamed::refused);
/// A file's bytes as the safetensors format lays out these arrays (by name): length of the header, JSON header, data.
LOCKSTEP_API std::vector<std::byte> write_safetensors(const std::map<std::string, Array>& arrays,
                                                      Unnamed unnamed = Unnamed::refused);
/// Reads such bytes. Every length and offset is checked against the bytes there are before it is used; names are unique,
/// tensors cover the data without hole or overlap. `in_parts`: what the metadata say is put together again. Throws
/// CheckpointError naming `file`, tensor and numbers.
LOCKSTEP_API std::map<std::string, Array> read_safetensors(std::span<const std::byte> bytes, const std::string& file,
                                                           Unnamed unnamed = Unnamed::refused);

}  // namespace lockstep::checkpoint
