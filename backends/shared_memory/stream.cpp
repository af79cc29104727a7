#include "backends/shared_memory/stream.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <lockstep/error.h>

namespace lockstep::backend::shared_memory {

std::size_t Ring::write(std::span<const std::byte> bytes) {
  const std::uint64_t at = ends_->written.load(std::memory_order_relaxed);
  const std::uint64_t waiting = at - ends_->read.load(std::memory_order_acquire);
  const std::size_t count = std::min<std::size_t>(bytes.size(), room_.size() - waiting);
  if (count == 0) return 0;
  const std::size_t place = at % room_.size();
  const std::size_t before_end = std::min(count, room_.size() - place);
  std::memcpy(room_.data() + place, bytes.data(), before_end);
  std::memcpy(room_.data(), bytes.data() + before_end, count - before_end);
  ends_->written.store(at + count, std::memory_order_release);
  return count;
}

std::size_t Ring::read(std::span<std::byte> bytes) {
  const std::uint64_t at = ends_->read.load(std::memory_order_relaxed);
  const std::uint64_t waiting = ends_->written.load(std::memory_order_acquire) - at;
  const std::size_t count = std::min<std::size_t>(bytes.size(), waiting);
  if (count == 0) return 0;
  const std::size_t place = at % room_.size();
  const std::size_t before_end = std::min(count, room_.size() - place);
  std::memcpy(bytes.data(), room_.data() + place, before_end);
  std::memcpy(bytes.data() + before_end, room_.data(), count - before_end);
  ends_->read.store(at + count, std::memory_order_release);
  return count;
}

std::shared_ptr<Message> Stream::add(Message message) {
  open_.push_back(std::make_shared<Message>(message));
  std::shared_ptr<Message> added = open_.back();
  advance();
  return added;
}

void Stream::advance() {
  while (!open_.empty() && !is_broken_) {
    if (!move(*open_.front())) return;
    open_.front()->is_done = true;
    open_.pop_front();
  }
}

void Stream::give_up(const Message& message) {
  if (message.is_done) return;
  if (message.moved > 0) is_broken_ = true;
  std::erase_if(open_, [&](const auto& open) { return open.get() == &message; });
}

bool Outgoing::move(Message& message) {
  constexpr std::size_t head = sizeof(message.length);
  if (message.moved < head) {
    message.moved += ring_.write(std::as_bytes(std::span(&message.length, 1)).subspan(message.moved));
    if (message.moved < head) return false;
  }
  for (;;) {
    const std::span<const std::byte> rest = message.sent.subspan(message.moved - head);
    if (rest.empty()) return true;
    const std::size_t count = ring_.write(rest);
    if (count == 0) return false;
    message.moved += count;
  }
}

bool Incoming::move(Message& message) {
  constexpr std::size_t head = sizeof(message.length);
  if (message.moved < head) {
    message.moved += ring_.read(std::as_writable_bytes(std::span(&message.length, 1)).subspan(message.moved));
    if (message.moved < head) return false;
    if (message.length > message.received.size()) {
      throw CommunicatorError("shared_memory: a message of " + std::to_string(message.length) +
                              " bytes came, expected " + std::to_string(message.received.size()) +
                              " at most; let all processes run the same program.");
    }
  }
  for (;;) {
    const std::span<std::byte> rest = message.received.first(message.length).subspan(message.moved - head);
    if (rest.empty()) return true;
    const std::size_t count = ring_.read(rest);
    if (count == 0) return false;
    message.moved += count;
  }
}

}  // namespace lockstep::backend::shared_memory
