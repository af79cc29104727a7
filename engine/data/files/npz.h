#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include <lockstep/batches.h>

namespace lockstep::data {

std::map<std::string, HostTable> parse_npz(std::span<const std::byte> bytes, const std::string& file);

}  // namespace lockstep::data
