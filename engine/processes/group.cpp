#include "engine/processes/group.h"

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

#include "engine/core/content_hash.h"
#include "engine/core/stable_hash.h"
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
/// As many time limits are others waited for that are alive and at work.
constexpr double limits_of_work = 10;

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
  control_ = std::make_unique<ControlLine>(*communicator, works);
  if (!communicator->may_have_a_thread()) return;
  set_time_limit(options.time_limit);
  try {
    watch.emplace([this] { return look(); });
  } catch (const std::system_error&) {  // the system has no thread: to the others this process is alive in collectives
  }
}

double Processes::Impl::patience() const { return limits_of_work * options.time_limit; }

processes::Patience Processes::Impl::patience_for(double seconds) const {
  const double limit = options.time_limit;
  if (!communicator->may_have_a_thread()) return {*control_, limit + seconds, limit + seconds};
  return {*control_, limit, patience() + seconds};
}

void Processes::Impl::set_time_limit(double seconds) {
  constexpr double shortest = 0.001, longest = 0.25, looks_in_a_limit = 8;
  {
    const std::lock_guard lock(mutex);
    options.time_limit = seconds;
  }
  pause_ = std::clamp(seconds / looks_in_a_limit, shortest, longest);
  if (watch) watch->wake();
}

// A thread that waits in a collective holds the mutex, and does all of this itself.
double Processes::Impl::look() noexcept {
  const std::unique_lock lock(mutex, std::try_to_lock);
  if (!lock) return pause_;
  try {
    if (has_failures && !has_failed) tell_failures();
    control_->poll();
  } catch (const std::exception&) {  // the program meets it in its next collective
  }
  return pause_;
}

void Processes::Impl::expect_room(std::size_t given, std::size_t expected, std::string_view op) const {
  if (given == expected) return;
  throw CommunicatorError(fmt::format("{}: {} has room for {} bytes, expected {}; size the buffer for all processes.",
                                      communicator->name(), op, given, expected));
}

void Processes::Impl::run(CollectiveName name, std::size_t bytes, int root, std::span<const processes::Part> parts,
                          double seconds) {
  wait_for(start(name, bytes, root, parts), seconds);
}

void Processes::Impl::wait_for(std::uint64_t last, double seconds) {
  finish(last, seconds);
  if (last > 0) ++meetings;
}

std::uint64_t Processes::Impl::start(CollectiveName name, std::size_t bytes, int root,
                                     std::span<const processes::Part> parts) {
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
                          .data = data,
                          .root = root,
                          .dtype = name.dtype};
  header.set_op(name.op);
  recorder.begin(header);
  try {
    UnderWay& it = under_way_.emplace_back();
    it.header = header;
    if (idle_first_.empty()) idle_first_.emplace_back(static_cast<std::size_t>(size));
    it.first = std::move(idle_first_.back());
    idle_first_.pop_back();
    it.exchange = std::make_unique<Exchange>(*communicator, header, parts, it.first);
    advance_all();
  } catch (const CommunicatorError& error) {
    give_up(error.what(), true);
  }
  return header.number;
}

void Processes::Impl::finish(std::uint64_t last, double seconds) {
  if (done >= last) return;
  if (has_failed) give_up("a collective that was under way is not over", false);
  try {
    wait(last, seconds);
  } catch (const CommunicatorError& error) {
    if (has_failed) throw;
    give_up(error.what(), true);
  }
}

void Processes::Impl::advance() {
  try {
    advance_all();
  } catch (const CommunicatorError& error) {
    give_up(error.what(), true);
  }
}

bool Processes::Impl::advance_all() {
  bool any = false;
  bool may_receive = true;
  for (UnderWay& it : under_way_) {
    if (it.exchange == nullptr) return any;
    any = it.exchange->advance(may_receive) || any;
    may_receive = may_receive && it.exchange->has_all_headers() && it.exchange->other_header() == nullptr;
  }
  return any;
}

void Processes::Impl::end_first() {
  while (!under_way_.empty() && under_way_.front().exchange->is_done()) {
    UnderWay& first = under_way_.front();
    recorder.end(first.header.number);
    idle_first_.push_back(std::move(first.first));
    under_way_.pop_front();
    ++done;
  }
}

void Processes::Impl::wait(std::uint64_t last, double seconds) {
  constexpr int questions = 32;  // about collectives to one about news
  control_->poll();
  check_peers(last);
  processes::Patience patience = patience_for(seconds);
  processes::Waiting waiting(options.time_limit);
  for (int i = 0;; ++i) {
    const bool came = advance_all();
    for (const UnderWay& it : under_way_) {
      if (it.exchange->other_header() != nullptr) refuse(*it.exchange, it.header);
    }
    end_first();
    if (done >= last) return;
    const Exchange& next = *under_way_.front().exchange;
    if (came) waiting.progressed(next.bytes());
    if (i % questions == questions - 1) {
      control_->poll();
      check_peers(last);
      const auto gone = patience.is_tried() ? patience.given_up(next.awaited()) : std::nullopt;
      if (gone && !advance_all()) time_out(next, under_way_.front().header, *gone);
    }
    waiting.pause();
  }
}

void Processes::Impl::check_peers(std::uint64_t last) {
  if (has_failures) {  // another thread's
    tell_failures();
    const std::lock_guard lock(failure_mutex);
    failure = failures.back().text;
    has_failed = true;
    throw CommunicatorError(fmt::format("this process has failed: {}", failure));
  }
  for (const auto& [header, first, exchange] : under_way_) {
    if (header.number > last) return;
    if (const int failed = control_->failed_peer(header.number); failed >= 0) {
      give_up(fmt::format("process {} failed: {}", failed, control_->peer(failed).failures.front().text), false);
    }
    for (const int process : exchange->missing()) {
      const ControlLine::Peer& peer = control_->peer(process);
      if (!peer.has_ended || peer.collectives >= header.number) continue;
      give_up(
          fmt::format("process {} has ended after {} collectives, and process {} waits for it in {}; let every process "
                      "make the same calls",
                      process, peer.collectives, rank, describe(header)),
          true);
    }
  }
}

void Processes::Impl::add_data(std::uint64_t hash) {
  StableHash both;
  both.add(data), both.add(hash);
  data = both.value();
}

/// What may differ, of that which was added since the collective before.
std::string Processes::Impl::difference_in_data(const CollectiveHeader& own) const {
  std::vector<std::string> parts;
  for (const auto& [begun, what] : noted) {
    if (begun + 1 == own.number) parts.push_back(what);
  }
  if (argument_names && call_began + 1 == own.number) {
    parts.push_back(fmt::format("the value of {} in call {} of program {}", argument_names(), own.call,
                                processes::hexadecimal(own.program)));
  }
  return parts.empty() ? "what they were given" : fmt::format("{}", fmt::join(parts, ", or "));
}

void Processes::Impl::refuse(const Exchange& exchange, const CollectiveHeader& own) {
  // Both processes say the same: the lower one first.
  const int other = exchange.other_process();
  std::pair<int, const CollectiveHeader*> first(rank, &own);
  std::pair<int, const CollectiveHeader*> second(other, exchange.other_header());
  if (other < rank) std::swap(first, second);
  CollectiveHeader alike = *exchange.other_header();
  alike.data = own.data;
  if (alike == own) {
    give_up(fmt::format("{} is not the same in processes {} and {}; let every process read the same data in the same "
                        "order, and decide alike",
                        difference_in_data(own), first.first, second.first),
            true);
  }
  std::string text = fmt::format("process {} is in {}, and process {} in {}; ", first.first, describe(*first.second),
                                 second.first, describe(*second.second));
  const auto is_first_alone = [](const CollectiveHeader& header) {
    return std::string_view(header.op.data()).starts_with("checkpoint::save");
  };
  const auto is_of_callbacks = [](const CollectiveHeader& header) {
    return std::string_view(header.op.data()).starts_with("comparison of what callbacks ask for");
  };
  text +=
      is_of_callbacks(*first.second) != is_of_callbacks(*second.second)
          ? "let callbacks ask for the same in every process: one that looks at what only this process has (time, a "
            "file, its rank) tells the others first"
      : is_first_alone(*first.second) != is_first_alone(*second.second)
          ? "call checkpoint::save in every process: process 0 alone writes, and the others wait for it"
          : "let every process call the same functions, compiled for the same shapes, in the same order";
  give_up(text, true);
}

void Processes::Impl::time_out(const Exchange& exchange, const CollectiveHeader& header,
                               const processes::Patience::GivenUp& others) {
  using Sign = processes::Patience::GivenUp::Sign;
  const std::string are = others.processes.size() == 1 ? " is " : " are ";
  const std::string who = listed(others.processes) + (others.sign == Sign::none    ? ""
                                                      : others.sign == Sign::alive ? are + "alive, but"
                                                                                   : are + "alive and at work, but");
  const std::string what =
      exchange.has_header_of(others.processes.front()) ? "came, but stopped before all was sent" : "did not come";
  give_up(fmt::format(
              "{} {} within {} s to {}, where process {} waits; {}, or give it longer: "
              "LOCKSTEP_COLLECTIVE_TIMEOUT, --collective-timeout, Processes::set_time_limit",
              who, what, others.seconds, describe(header), rank,
              others.sign == Sign::none ? "there was no sign of life: see whether it is stopped" : "see what it does"),
          true);
}

bool Processes::Impl::note_failure(std::string_view text) {
  const std::lock_guard lock(failure_mutex);
  if (has_failed) return false;
  try {
    failure = text;
  } catch (const std::bad_alloc&) {  // a failure without a text is one, too
    failure.clear();
  }
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

bool Processes::Impl::will_come(const Exchange& exchange) const {
  return std::ranges::none_of(exchange.missing(), [&](int process) {
    const ControlLine::Peer& peer = control_->peer(process);
    return peer.has_given_up || peer.has_ended;
  });
}

// The others may have failed alike, as far into the call: then what they have begun is on its way.
void Processes::Impl::settle() noexcept {
  if (under_way_.empty()) return;
  try {
    processes::Patience patience = patience_for(0);
    for (processes::Waiting waiting(options.time_limit); !has_failed; waiting.pause()) {
      control_->poll();
      const bool came = advance_all();
      end_first();
      if (under_way_.empty()) return;
      const Exchange& next = *under_way_.front().exchange;
      if (came) waiting.progressed(next.bytes());
      const bool is_late = patience.is_tried() && patience.given_up(next.awaited());
      if (next.other_header() == nullptr && will_come(next) && !is_late) continue;
      const std::string text = fmt::format("{} was under way when a call threw, and not all came to it",
                                           describe(under_way_.front().header));
      if (note_failure(text)) control_->tell_all(ControlLine::News::gave_up, done, text);
    }
  } catch (const std::exception& error) {
    note_failure(error.what());
  }
  // What they have under way may still be read or written. Nothing more is begun, so this happens once; a swap takes no
  // memory.
  if (failed_exchanges_.empty()) {
    failed_exchanges_.swap(under_way_);
  } else {
    std::ranges::move(under_way_, std::back_inserter(failed_exchanges_));
    under_way_.clear();
  }
}

void Processes::Impl::leave() {
  if (size == 1) return;
  const std::lock_guard lock(mutex);
  tell_failures();
  const bool well = !has_failed && std::uncaught_exceptions() == 0 &&
                    (!has_failures || compare_failures({*control_, farewell_seconds, farewell_seconds}).likeness ==
                                          ControlLine::Likeness::same);
  control_->tell_all(well ? ControlLine::News::ended : ControlLine::News::ended_after_failure, number, {});
  const auto goes_well = [&] {
    return well && control_->failed_peer(number + 1) < 0 &&
           control_->all_have_ended() == control_->all_have_ended_well();
  };
  processes::Waiting farewell(farewell_seconds);
  const processes::Waiting end(std::max(longest_end_seconds, patience()));
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
