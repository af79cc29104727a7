#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// A hash that is the same on every machine and in every run.
class StableHash {
 public:
  void add(std::uint64_t value) {
    state_ ^= mixed(value + 0x9e3779b97f4a7c15U + state_);
    state_ *= 0xff51afd7ed558ccdU;
  }
  void add(std::string_view text) {
    add(text.size());
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    add(hash);
  }
  std::uint64_t value() const { return mixed(state_); }

 private:
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
  }

  std::uint64_t state_ = 0x2545f4914f6cdd1dU;
};

}  // namespace lockstep
