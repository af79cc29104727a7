// SIGINT and SIGTERM while a run trains: the first one asks for its end, the second one ends the process.
#pragma once

#include <csignal>

namespace lockstep::cli {

/// While it lives, the first SIGINT or SIGTERM of this process is kept, and what asks for it stops and saves; a second one
/// does what it does elsewhere: it ends the process. A signal that is ignored (nohup) stays so. One at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that came, or 0.
  int received() const;

 private:
  struct sigaction interrupt_before_ {};
  struct sigaction terminate_before_ {};
};

/// "SIGINT", "SIGTERM".
const char* name_of_signal(int signal);

}  // namespace lockstep::cli
