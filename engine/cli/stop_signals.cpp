// Handlers that keep the first signal and give the second one back to the system.
#include "engine/cli/stop_signals.h"

namespace lockstep::cli {
namespace {

volatile std::sig_atomic_t first_signal = 0;

/// SA_RESETHAND has put the signal's own effect back: a second one of it ends the process, and so does one of the other.
void keep_first(int signal) {
  if (first_signal == 0) {
    first_signal = signal;
    return;
  }
  struct sigaction usual {};
  usual.sa_handler = SIG_DFL;
  sigaction(signal, &usual, nullptr);
  raise(signal);
}

void keep(int signal, struct sigaction& before) {
  struct sigaction ours {};
  ours.sa_handler = keep_first;
  ours.sa_flags = SA_RESTART | SA_RESETHAND;
  sigemptyset(&ours.sa_mask);
  if (sigaction(signal, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) sigaction(signal, &ours, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  first_signal = 0;
  keep(SIGINT, interrupt_before_);
  keep(SIGTERM, terminate_before_);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &interrupt_before_, nullptr);
  sigaction(SIGTERM, &terminate_before_, nullptr);
}

int StopSignals::received() const { return first_signal; }

const char* name_of_signal(int signal) { return signal == SIGINT ? "SIGINT" : "SIGTERM"; }

}  // namespace lockstep::cli
