#pragma once

#include <lockstep/export.h>

namespace lockstep::backend {

/// Something that keeps memory for its next use: freed blocks, arenas of calls. While it lives it is known to
/// `release_reusable_memory`. A derived class calls `forget` at the start of its destructor.
class LOCKSTEP_API ReusableMemory {
 public:
  ReusableMemory() noexcept;
  ReusableMemory(const ReusableMemory&) = delete;
  ReusableMemory& operator=(const ReusableMemory&) = delete;

  /// Frees what nobody uses. Called on any thread, also while others take and give; neither makes nor ends another
  /// ReusableMemory.
  virtual void release() noexcept = 0;

 protected:
  virtual ~ReusableMemory();
  /// From here on `release` is not called.
  void forget() noexcept;

 private:
  friend LOCKSTEP_API void release_reusable_memory() noexcept;  ///< Calls release of each.

  ReusableMemory* before_ = nullptr;
  ReusableMemory* behind_ = nullptr;
  bool is_known_ = true;
};

/// Frees all memory that this process keeps for its next use and that nobody uses now. What an allocation does that
/// fails, before it is tried again; blocks that other threads keep for themselves stay theirs.
LOCKSTEP_API void release_reusable_memory() noexcept;

}  // namespace lockstep::backend
