#pragma once

#include <cstdint>

#include <lockstep/attrs.h>

namespace lockstep::ops {

/// The attributes of the ops that accumulate along one axis.
struct Direction {
  std::int64_t axis;
  bool reverse;

  Direction(std::int64_t axis, bool reverse) : axis(axis), reverse(reverse) {}
  explicit Direction(const Attrs& attrs) : Direction(attrs.get<std::int64_t>("axis"), attrs.get<bool>("reverse")) {}
  Attrs attrs() const { return {{"axis", axis}, {"reverse", reverse}}; }
  Attrs against() const { return Direction(axis, !reverse).attrs(); }
};

}  // namespace lockstep::ops
