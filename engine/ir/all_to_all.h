#pragma once

#include <cstdint>
#include <string>

#include <lockstep/attrs.h>

namespace lockstep::ir {

/// The attributes of all_to_all: each replica's operand is cut into a block for every replica along `split`; the blocks
/// that it gets are joined along `concat`.
struct AllToAll {
  std::string axis;
  std::int64_t split = 0;
  std::int64_t concat = 0;

  static AllToAll of(const Attrs& attrs) {
    return {attrs.get<std::string>("axis"), attrs.get<std::int64_t>("split"), attrs.get<std::int64_t>("concat")};
  }
  Attrs attrs() const { return {{"axis", axis}, {"split", split}, {"concat", concat}}; }
};

}  // namespace lockstep::ir
