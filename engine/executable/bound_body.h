#pragma once

#include <cstddef>

#include <lockstep/backend/round_up.h>

#include "engine/executable/walker.h"

namespace lockstep::executable {

/// One device's use of a body in one call: its views and addresses, in memory that the caller gives.
class BoundBody {
 public:
  /// Bytes that all devices share, and bytes of each one.
  static std::size_t shared_bytes(const Executable& executable);
  static std::size_t own_bytes(const Executable& executable);

  BoundBody(const Executable& executable, std::byte* shared, std::byte* own);

  const Executable& executable() const { return executable_; }
  std::byte*& argument(std::size_t i) { return bases_[base::first_argument + i]; }
  std::byte*& result(std::size_t i) { return bases_[base::first_argument + executable_.argument_types.size() + i]; }
  /// Where result i is to be read after a run: in place, where it is an argument or an earlier result.
  const std::byte* value(std::size_t i);

  bool has_copies() const;
  void run(Crew& crew) { Walker(executable_, views_, bases_, crew).run(); }
  /// Puts results that no kernel writes where they belong, but for those `skip(i)` names.
  template <class Skip>
  void copy_results(const Skip& skip) {
    for (std::size_t i = 0; i < executable_.results.size(); ++i) {
      if (executable_.results[i].kind != ResultSource::Kind::fresh && !skip(i)) copy_result(i);
    }
  }

 private:
  void copy_result(std::size_t i);

  const Executable& executable_;
  ArrayView* views_;
  std::byte** bases_;
};

/// Copies an array's bytes, of which there may be none.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t nbytes);

/// `bytes` rounded up to whole cache lines.
constexpr std::size_t whole_lines(std::size_t bytes) {
  constexpr std::size_t line = 64;
  return round_up(bytes, line);
}

}  // namespace lockstep::executable
