#pragma once

namespace lockstep::tests {

/// While it lives, the nth call of a function of the system, from 0 on, fails with that error in this process.
class FaultyDisk {
 public:
  enum class Call { fsync, rename };
  FaultyDisk(Call call, int nth, int error);
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;
  /// Whether it has failed.
  static bool has_failed();
};

}  // namespace lockstep::tests
