#include "engine/processes/patience.h"

#include <algorithm>

namespace lockstep::processes {
namespace {

constexpr double questions_in_limit = 4;

ControlLine::Clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<ControlLine::Clock::duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

Patience::Patience(ControlLine& control, double limit, double at_work)
    : control_(control), limit_(limit), at_work_(at_work), pause_(duration_of(limit / questions_in_limit)) {}

std::optional<Patience::GivenUp> Patience::given_up(std::span<const int> processes) {
  const Clock::time_point now = Clock::now();
  GivenUp silent{.processes = {}, .sign = GivenUp::Sign::none, .seconds = limit_};
  GivenUp alive{.processes = {}, .sign = GivenUp::Sign::alive, .seconds = limit_};
  for (const int process : processes) {
    const ControlLine::Peer& peer = control_.peer(process);
    if (now - std::max(begin_, peer.heard) >= pause_) control_.ask(process);
    if (now - std::max(begin_, peer.at_work) < duration_of(limit_)) continue;
    GivenUp& found = now - std::max(begin_, peer.heard) < 2 * pause_ ? alive : silent;
    found.processes.push_back(process);
  }
  if (!silent.processes.empty()) return silent;
  if (!alive.processes.empty()) return alive;
  if (now - begin_ < duration_of(at_work_)) return std::nullopt;
  return GivenUp{
      .processes = {processes.begin(), processes.end()}, .sign = GivenUp::Sign::at_work, .seconds = at_work_};
}

}  // namespace lockstep::processes
