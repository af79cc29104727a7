#include "engine/processes/patience.h"

#include <algorithm>

namespace lockstep::processes {
namespace {

constexpr double questions_in_silence = 4;

ControlLine::Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<ControlLine::Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Patience::Patience(ControlLine& control, double silent, double alive)
    : control_(control), silent_(silent), alive_(alive), pause_(duration_of(silent / questions_in_silence)) {}

std::optional<Patience::GivenUp> Patience::given_up(std::span<const int> processes) {
  const Clock::time_point now = Clock::now();
  GivenUp found{.processes = {}, .are_alive = false, .seconds = silent_};
  for (const int process : processes) {
    const Clock::time_point heard = std::max(begin_, control_.peer(process).heard);
    if (now - heard >= pause_) control_.ask(process);
    if (now - heard >= duration_of(silent_)) found.processes.push_back(process);
  }
  if (!found.processes.empty()) return found;
  if (now - begin_ < duration_of(alive_)) return std::nullopt;
  return GivenUp{.processes = {processes.begin(), processes.end()}, .are_alive = true, .seconds = alive_};
}

}  // namespace lockstep::processes
