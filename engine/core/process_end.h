// The end of a process while it computes: what the library's threads read is not taken apart under their hands.
#pragma once

#include <functional>
#include <list>
#include <string_view>

#include <lockstep/export.h>

namespace lockstep {

/// Where a thread computes. When the process ends meanwhile, by exit or because main returns, it ends at once with its
/// exit code and what was printed, and nothing is destroyed; what is asked for afterwards is an error.
class InLibrary {
 public:
  /// Throws BackendError where the process is ending.
  explicit InLibrary(std::string_view op);
  ~InLibrary();
  InLibrary(const InLibrary&) = delete;
  InLibrary& operator=(const InLibrary&) = delete;
};

/// While it lives, other threads work for this one.
class WithWorkers {
 public:
  explicit WithWorkers(bool has_workers) noexcept;
  ~WithWorkers();
  WithWorkers(const WithWorkers&) = delete;
  WithWorkers& operator=(const WithWorkers&) = delete;

 private:
  bool has_workers_;
};

/// While it lives, `stop` is called when the process ends, before anything of the library is destroyed: it ends a thread.
/// False where it cannot, for it is called by that thread.
class AtProcessEnd {
 public:
  explicit AtProcessEnd(std::function<bool()> stop);
  ~AtProcessEnd();
  AtProcessEnd(const AtProcessEnd&) = delete;
  AtProcessEnd& operator=(const AtProcessEnd&) = delete;

 private:
  std::list<std::function<bool()>>::iterator place_;
};

/// Registers an exit handler that stops the library's threads before the static objects made so far are destroyed. It is
/// called again after more of them are made.
void watch_process_end();

}  // namespace lockstep
