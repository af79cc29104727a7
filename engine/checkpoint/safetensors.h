#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <lockstep/array.h>

namespace lockstep::checkpoint {

/// A file's bytes as the safetensors format lays out these arrays (by name): length of the header, JSON header, data.
std::vector<std::byte> write_safetensors(const std::map<std::string, Array>& arrays);
/// Reads such bytes. Every length and offset is checked against the bytes there are before it is used; names are unique,
/// tensors cover the data without hole or overlap. Throws CheckpointError naming `file`, tensor and numbers.
std::map<std::string, Array> read_safetensors(std::span<const std::byte> bytes, const std::string& file);

}  // namespace lockstep::checkpoint
