#pragma once

#include <functional>

namespace lockstep::tests {

/// While it lives, the nth call of a function of the system, from 0 on, fails with that error in this process. Calls of
/// `exchange` are those of renameat2, of `open` those that make a file, of `write` and `close` those of a file that is written.
class FaultyDisk {
 public:
  enum class Call { fsync, rename, exchange, open, write, close, mkdtemp };
  enum class Lasts { once, from_then_on };
  FaultyDisk(Call call, int nth, int error, Lasts lasts = Lasts::once);
  ~FaultyDisk();
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;
  /// Whether it has failed.
  static bool has_failed();
};

/// While it lives, every fsync of this process does this first.
class BeforeFsync {
 public:
  explicit BeforeFsync(std::function<void()> before);
  ~BeforeFsync();
  BeforeFsync(const BeforeFsync&) = delete;
  BeforeFsync& operator=(const BeforeFsync&) = delete;
};

}  // namespace lockstep::tests
