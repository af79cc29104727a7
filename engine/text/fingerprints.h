#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep::data {

/// FarmHash' Fingerprint64 (Pike and Alakuijala 2014), the same on all machines.
std::uint64_t fingerprint64(std::string_view text);
/// SipHash-2-4 with a key of two numbers (Aumasson and Bernstein 2012).
std::uint64_t sip_hash(std::string_view text, std::uint64_t first, std::uint64_t second);

}  // namespace lockstep::data
