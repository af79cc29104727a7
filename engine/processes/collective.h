#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/types.h>

namespace lockstep::processes {

/// What a process says of the collective it has begun, in front of what it sends: equal on all that take part in one.
struct CollectiveHeader {
  std::uint64_t number = 0;   ///< From 1 on.
  std::uint64_t bytes = 0;    ///< From one process to another one.
  std::uint64_t call = 0;     ///< Of compiled functions that communicate, from 1 on; 0: outside of them.
  std::uint64_t program = 0;  ///< Hash of that function, or, outside of them, of the whole name.
  std::uint64_t data =
      0;  ///< Running hash of what is compared on the way: arguments of calls, and `expect_same_later`.
  std::int32_t root = -1;
  DType dtype = DType::uint8;
  std::array<char, 83> op{};  ///< The name's beginning, ended by a zero.

  bool operator==(const CollectiveHeader&) const = default;
  void set_op(std::string_view name);
};

/// "collective 3, all_gather of 64 bytes of float32, in call 2 of program 09ab".
std::string describe(const CollectiveHeader& header);
/// Sixteen hexadecimal digits.
std::string hexadecimal(std::uint64_t value);

}  // namespace lockstep::processes
