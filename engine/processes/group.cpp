#include "engine/processes/group.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

#include "engine/core/content_hash.h"
#include "engine/processes/waiting.h"

namespace lockstep {

using processes::CollectiveHeader;
using processes::ControlLine;
using processes::Exchange;

namespace {

/// For how long a process that has failed stays, so that others say why they end before a launcher stops them.
constexpr double farewell_seconds = 2;
/// For how long one that has ended waits for the others to end, at least.
constexpr double longest_end_seconds = 600;

std::string listed(const std::vector<int>& processes) {
  return fmt::format("{} {}", processes.size() == 1 ? "process" : "processes", fmt::join(processes, ", "));
}

std::uint64_t hash_of(std::string_view text) {
  return content_hash({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

}  // namespace

Processes::Impl::Impl(std::shared_ptr<backend::Communicator> raw, ProcessOptions given)
    : communicator(std::move(raw)), options(std::move(given)), rank(communicator->rank()), size(communicator->size()) {
  if (size == 1) return;
  first_.resize(static_cast<std::size_t>(size));
  control_ = std::make_unique<ControlLine>(*communicator);
}

void Processes::Impl::expect_room(std::size_t given, std::size_t expected, std::string_view op) const {
  if (given == expected) return;
  throw CommunicatorError(fmt::format("{}: {} has room for {} bytes, expected {}; size the buffer for all processes.",
                                      communicator->name(), op, given, expected));
}

void Processes::Impl::run(CollectiveName name, std::size_t bytes, int root, std::span<const processes::Part> parts,
                          double seconds) {
  if (has_failures && !has_failed) expect_like_failures(name.op);
  if (has_failed) {
    const std::lock_guard lock(failure_mutex);
    throw CommunicatorError(
        fmt::format("{}: the processes have failed before, so that nothing can be communicated any "
                    "more: {}",
                    name.op, failure));
  }
  CollectiveHeader header{.number = ++number,
                          .bytes = bytes,
                          .call = in_call ? calls : 0,
                          .program = in_call ? program : hash_of(name.op),
                          .root = root,
                          .dtype = name.dtype};
  header.set_op(name.op);
  recorder.begin(header);
  std::unique_ptr<Exchange> exchange;
  try {
    exchange = std::make_unique<Exchange>(*communicator, header, parts, first_);
    control_->poll();
    check_peers(*exchange, header);
    wait(*exchange, header, options.time_limit + seconds);
  } catch (const CommunicatorError& error) {
    if (exchange != nullptr) failed_exchanges_.push_back(std::move(exchange));
    if (has_failed) throw;
    give_up(error.what(), true);
  }
  recorder.end();
  ++done;
}

void Processes::Impl::wait(Exchange& exchange, const CollectiveHeader& header, double seconds) {
  constexpr int questions = 32;  // about collectives to one about news
  processes::Waiting waiting(seconds);
  for (int i = 0;; ++i) {
    const bool came = exchange.advance();
    if (exchange.other_header() != nullptr) refuse(exchange, header);
    if (exchange.is_done()) return;
    if (came) waiting.progressed(exchange.bytes());
    if (i % questions == questions - 1) {
      control_->poll();
      check_peers(exchange, header);
      if (waiting.is_over() && !exchange.advance()) time_out(exchange, header, seconds);
    }
    waiting.pause();
  }
}

void Processes::Impl::check_peers(const Exchange& exchange, const CollectiveHeader& header) {
  if (has_failures) {  // another thread's
    tell_failures();
    const std::lock_guard lock(failure_mutex);
    failure = failures.back().text;
    has_failed = true;
    throw CommunicatorError(fmt::format("this process has failed: {}", failure));
  }
  if (const int failed = control_->failed_peer(header.number); failed >= 0) {
    give_up(fmt::format("process {} failed: {}", failed, control_->peer(failed).failures.front().text), false);
  }
  for (const int process : exchange.missing()) {
    const ControlLine::Peer& peer = control_->peer(process);
    if (!peer.has_ended || peer.collectives >= header.number) continue;
    give_up(
        fmt::format("process {} has ended after {} collectives, and process {} waits for it in {}; let every process "
                    "make the same calls",
                    process, peer.collectives, rank, describe(header)),
        true);
  }
}

void Processes::Impl::refuse(const Exchange& exchange, const CollectiveHeader& own) {
  // Both processes say the same: the lower one first.
  const int other = exchange.other_process();
  std::pair<int, const CollectiveHeader*> first(rank, &own);
  std::pair<int, const CollectiveHeader*> second(other, exchange.other_header());
  if (other < rank) std::swap(first, second);
  std::string text = fmt::format("process {} is in {}, and process {} in {}; ", first.first, describe(*first.second),
                                 second.first, describe(*second.second));
  const auto is_first_alone = [](const CollectiveHeader& header) {
    return std::string_view(header.op.data()).starts_with("checkpoint::save");
  };
  text += is_first_alone(*first.second) != is_first_alone(*second.second)
              ? "call checkpoint::save in every process: process 0 alone writes, and the others wait for it"
              : "let every process call the same functions, compiled for the same shapes, in the same order";
  give_up(text, true);
}

void Processes::Impl::time_out(const Exchange& exchange, const CollectiveHeader& header, double seconds) {
  const std::vector<int> missing = exchange.missing();
  const std::string who = missing.empty() ? listed(exchange.incomplete()) + " came, but stopped before all was sent"
                                          : listed(missing) + " did not come";
  give_up(fmt::format("{} within {} s to {}, where process {} waits; see whether it is stopped, or give it longer: "
                      "LOCKSTEP_COLLECTIVE_TIMEOUT, --collective-timeout, Processes::set_time_limit",
                      who, seconds, describe(header), rank),
          true);
}

bool Processes::Impl::note_failure(std::string_view text) {
  const std::lock_guard lock(failure_mutex);
  if (has_failed) return false;
  failure = text;
  has_failed = true;
  return true;
}

void Processes::Impl::give_up(const std::string& text, bool tell) {
  if (!note_failure(text)) throw CommunicatorError(text);
  control_->tell_all(tell ? ControlLine::News::failed : ControlLine::News::gave_up, done, text);
  const char* set = std::getenv("LOCKSTEP_FLIGHT_RECORDER");
  std::error_code ignored;
  const std::string where = recorder.write(
      {set == nullptr ? "" : set, options.flight_folder, std::filesystem::temp_directory_path(ignored)}, rank, text);
  throw CommunicatorError(fmt::format("{} ({})", text, where));
}

void Processes::Impl::leave() {
  if (size == 1) return;
  const std::lock_guard lock(mutex);
  tell_failures();
  int ignored = 0;
  const bool well = !has_failed && std::uncaught_exceptions() == 0 &&
                    (!has_failures || compare_failures(farewell_seconds, ignored) == ControlLine::Likeness::same);
  control_->tell_all(well ? ControlLine::News::ended : ControlLine::News::ended_after_failure, number, {});
  const auto goes_well = [&] {
    return well && control_->failed_peer(number + 1) < 0 &&
           control_->all_have_ended() == control_->all_have_ended_well();
  };
  processes::Waiting farewell(farewell_seconds);
  const processes::Waiting end(std::max(longest_end_seconds, options.time_limit));
  while ((!control_->all_have_ended() || control_->is_sending()) && !end.is_over()) {
    control_->poll();
    if (goes_well()) {
      farewell = processes::Waiting(farewell_seconds);
      end.pause();
    } else {
      if (farewell.is_over()) break;
      farewell.pause();
    }
  }
  if (!well || !control_->all_have_ended_well()) communicator->abandon();
}

}  // namespace lockstep
