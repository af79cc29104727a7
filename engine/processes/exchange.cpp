#include "engine/processes/exchange.h"

#include <algorithm>

namespace lockstep::processes {
namespace {

bool done(const std::unique_ptr<Transfer>& transfer) { return transfer == nullptr || transfer->test(); }

}  // namespace

Exchange::Exchange(Communicator& communicator, const CollectiveHeader& header, std::span<const Part> parts,
                   std::span<FirstMessages> first)
    : communicator_(communicator),
      own_(header),
      first_(first),
      headers_(static_cast<std::size_t>(communicator.size())),
      open_(parts.size()),
      missing_(parts.size()) {
  sides_.reserve(parts.size());
  for (const Part& part : parts) {
    Side& side = sides_.emplace_back();
    side.part = part;
    FirstMessages& room = first_[static_cast<std::size_t>(part.process)];
    std::memcpy(room.sent.data(), &own_, sizeof(own_));
    std::size_t length = sizeof(own_);
    if (!is_long(part.sent) && !part.sent.empty()) {
      std::memcpy(room.sent.data() + length, part.sent.data(), part.sent.size());
      length += part.sent.size();
    }
    side.first_sent =
        communicator_.start_send(Channel::data, part.process, std::span<const std::byte>(room.sent).first(length));
    if (is_long(part.sent)) side.rest_sent = communicator_.start_send(Channel::data, part.process, part.sent);
  }
}

bool Exchange::take_header(Side& side) {
  if (side.first_received == nullptr) {
    std::span<std::byte> room = first_[static_cast<std::size_t>(side.part.process)].received;
    side.first_received = communicator_.start_receive(Channel::data, side.part.process, room);
  }
  if (!side.first_received->test()) return false;
  const FirstMessages& room = first_[static_cast<std::size_t>(side.part.process)];
  CollectiveHeader& theirs = headers_[static_cast<std::size_t>(side.part.process)];
  std::memcpy(&theirs, room.received.data(), sizeof(theirs));
  side.has_header = true;
  --missing_;
  if (theirs != own_) {
    if (other_ < 0) other_ = side.part.process;
    return true;
  }
  const std::span<std::byte> received = side.part.received;
  if (is_long(received)) {
    side.rest_received = communicator_.start_receive(Channel::data, side.part.process, received);
  } else if (!received.empty()) {
    std::memcpy(received.data(), room.received.data() + sizeof(theirs), received.size());
  }
  return true;
}

bool Exchange::advance(Side& side, bool may_receive) {
  const bool came = !side.has_header && may_receive && take_header(side);
  // Each is asked: two processes that both send first may only go on while they receive.
  const bool first_sent = done(side.first_sent), rest_sent = done(side.rest_sent);
  const bool rest_received = done(side.rest_received);
  if (!side.has_header || !first_sent || !rest_sent || !rest_received) return came;
  side.is_done = true;
  --open_;
  return true;
}

bool Exchange::advance(bool may_receive) {
  bool any = false;
  for (Side& side : sides_) any = (!side.is_done && advance(side, may_receive)) || any;
  return any;
}

std::size_t Exchange::bytes() const {
  std::size_t sum = 0;
  for (const Side& side : sides_) {
    if (!side.is_done && side.has_header) sum += side.part.sent.size() + side.part.received.size();
  }
  return sum;
}

std::vector<int> Exchange::missing() const {
  std::vector<int> processes;
  for (const Side& side : sides_) {
    if (!side.has_header) processes.push_back(side.part.process);
  }
  return processes;
}

std::vector<int> Exchange::awaited() const {
  std::vector<int> processes;
  for (const Side& side : sides_) {
    if (!side.is_done) processes.push_back(side.part.process);
  }
  return processes;
}

bool Exchange::has_header_of(int process) const {
  return std::ranges::any_of(sides_, [&](const Side& side) { return side.part.process == process && side.has_header; });
}

}  // namespace lockstep::processes
