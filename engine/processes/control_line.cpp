#include "engine/processes/control_line.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

namespace lockstep::processes {

ControlLine::ControlLine(Communicator& communicator, const std::atomic<int>& works)
    : communicator_(communicator),
      works_(works),
      peers_(static_cast<std::size_t>(communicator.size())),
      received_(peers_.size()) {
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (!is_other(p)) continue;
    received_[p] = std::make_unique<Letter>();
    receive(static_cast<int>(p));
  }
}

void ControlLine::receive(int from) {
  Letter& letter = *received_[static_cast<std::size_t>(from)];
  letter.transfer =
      communicator_.start_receive(Channel::control, from, std::as_writable_bytes(std::span(&letter.message, 1)));
}

void ControlLine::tell_all(News news, std::uint64_t collectives, std::string_view text) {
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (is_other(p)) tell(static_cast<int>(p), news, collectives, text);
  }
}

void ControlLine::tell(int to, News news, std::uint64_t collectives, std::string_view text) {
  Letter& letter = sent_.emplace_back();
  letter.message.news = news;
  letter.message.collectives = collectives;
  const std::size_t length = std::min(text.size(), longest_text);
  std::copy_n(text.begin(), length, letter.message.text.begin());
  const std::span<const std::byte> bytes = std::as_bytes(std::span(&letter.message, 1));
  letter.transfer = communicator_.start_send(Channel::control, to, bytes.first(offsetof(Message, text) + length + 1));
}

void ControlLine::ask(int process) {
  Peer& peer = peers_[static_cast<std::size_t>(process)];
  if (std::exchange(peer.is_asked, true)) return;
  tell(process, News::question, 0, {});
}

void ControlLine::poll() {
  sent_.remove_if([](Letter& letter) { return letter.transfer->test(); });
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (!is_other(p)) continue;
    while (received_[p]->transfer->test()) note(static_cast<int>(p));
  }
}

void ControlLine::note(int from) {
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  const Message& message = received_[static_cast<std::size_t>(from)]->message;
  if (message.news == News::failed) {
    peer.failures.push_back({message.collectives, message.text.data()});
  } else if (message.news == News::gave_up) {
    peer.has_given_up = true;
  } else if (message.news == News::question) {
    tell(from, works_ > 0 ? News::answer_at_work : News::answer, 0, {});
  } else if (message.news == News::answer || message.news == News::answer_at_work) {
    peer.is_asked = false;
    peer.heard = Clock::now();
    if (message.news == News::answer_at_work) peer.at_work = peer.heard;
  } else {
    peer.has_ended = true;
    peer.ended_well = message.news == News::ended;
    peer.collectives = message.collectives;
  }
  receive(from);
}

int ControlLine::failed_peer(std::uint64_t collectives) const {
  const auto found = std::ranges::find_if(peers_, [&](const Peer& peer) {
    return !peer.failures.empty() && peer.failures.front().collectives < collectives;
  });
  return found == peers_.end() ? -1 : static_cast<int>(found - peers_.begin());
}

ControlLine::Likeness ControlLine::likeness(int process, std::span<const Failure> own) const {
  const Peer& there = peer(process);
  const std::size_t known = std::min(there.failures.size(), own.size());
  if (!std::equal(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(known), there.failures.begin())) {
    return Likeness::other;
  }
  if (known == own.size()) return Likeness::same;
  return there.has_given_up || there.has_ended ? Likeness::other : Likeness::unknown;
}

void ControlLine::forget_failures(std::size_t count) {
  for (std::size_t p = 0; p < peers_.size(); ++p) {
    if (!is_other(p)) continue;
    std::deque<Failure>& failures = peers_[p].failures;
    failures.erase(failures.begin(), failures.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

bool ControlLine::all_have_ended() const {
  return std::ranges::count_if(peers_, &Peer::has_ended) + 1 == std::ssize(peers_);
}

bool ControlLine::all_have_ended_well() const {
  return std::ranges::count_if(peers_, &Peer::ended_well) + 1 == std::ssize(peers_);
}

}  // namespace lockstep::processes
