#include <fmt/format.h>

#include <lockstep/error.h>

#include "engine/processes/group.h"
#include "engine/processes/waiting.h"

// Errors that a process has told the others, and whether all of them had the same.
namespace lockstep {

using processes::ControlLine;
using processes::Failure;

namespace {

std::string text_of(int process, const Failure& failure) {
  return fmt::format("process {} failed after {} collectives: {}", process, failure.collectives, failure.text);
}

}  // namespace

void Processes::Impl::fail(std::string_view text) {
  if (size == 1 || has_failed) return;
  {
    const std::lock_guard lock(failure_mutex);
    Failure now{done, std::string(text.substr(0, ControlLine::longest_text))};
    // What a compiled function has told already goes through the loop around it, too.
    if (failures.empty() || failures.back() != now) failures.push_back(std::move(now));
    has_failures = true;
  }
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (lock) return tell_failures();
  if (watch) watch->wake();  // it tells them, or the thread that waits in a collective does
}

void Processes::Impl::tell_failures() {
  const std::lock_guard lock(failure_mutex);
  for (; told_ < failures.size(); ++told_) {
    control_->tell_all(ControlLine::News::failed, failures[told_].collectives, failures[told_].text);
  }
}

/// Waits for what the others say. The same: it is forgotten.
Processes::Impl::Comparison Processes::Impl::compare_failures(processes::Patience patience) {
  std::vector<Failure> own;
  {
    const std::lock_guard lock(failure_mutex);
    own = failures;
  }
  for (processes::Waiting waiting(options.time_limit);; waiting.pause()) {
    control_->poll();
    std::vector<int> unknown;
    for (int p = 0; p < size; ++p) {
      if (p == rank) continue;
      const ControlLine::Likeness likeness = control_->likeness(p, own);
      if (likeness == ControlLine::Likeness::other) return {likeness, p};
      if (likeness == ControlLine::Likeness::unknown) unknown.push_back(p);
    }
    if (!unknown.empty()) {
      const auto gone = patience.is_tried() ? patience.given_up(unknown) : std::nullopt;
      if (gone) return {ControlLine::Likeness::unknown, gone->processes.front(), gone->seconds};
      continue;
    }
    control_->forget_failures(own.size());
    const std::lock_guard lock(failure_mutex);
    failures.erase(failures.begin(), failures.begin() + static_cast<std::ptrdiff_t>(own.size()));
    told_ -= own.size();
    has_failures = !failures.empty();
    return {ControlLine::Likeness::same};
  }
}

void Processes::Impl::expect_like_failures(std::string_view op) {
  tell_failures();
  const auto [likeness, peer, seconds] = compare_failures(patience_for(0));
  if (likeness == ControlLine::Likeness::same) return;
  const auto& theirs = control_->peer(peer).failures;
  const std::string what = !theirs.empty() ? text_of(peer, theirs.front())
                           : likeness == ControlLine::Likeness::other
                               ? fmt::format("process {} did not", peer)
                               : fmt::format("process {} did not within {} s", peer, seconds);
  Failure own;
  {
    const std::lock_guard lock(failure_mutex);
    own = failures.front();
  }
  give_up(
      fmt::format("{}: {}; and {}; after an error go on only where all processes catch the same one at the same place",
                  op, text_of(rank, own), what),
      false);
}

}  // namespace lockstep
