#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>

namespace lockstep::backend::shared_memory {

/// How far a ring's writer and its reader have come, in bytes since the beginning. Each writes one of them, and they lie
/// in cache lines of their own.
struct RingEnds {
  alignas(64) std::atomic<std::uint64_t> written{0};
  alignas(64) std::atomic<std::uint64_t> read{0};
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share it");

/// A ring of bytes in shared memory, written by one process and read by another one.
class Ring {
 public:
  Ring(RingEnds& ends, std::span<std::byte> room) : ends_(&ends), room_(room) {}

  /// As many bytes as fit, or have come: how many.
  std::size_t write(std::span<const std::byte> bytes);
  std::size_t read(std::span<std::byte> bytes);

 private:
  RingEnds* ends_;
  std::span<std::byte> room_;
};

/// A message on its way through a ring: its length, then its bytes.
struct Message {
  std::span<const std::byte> sent;
  std::span<std::byte> received;
  std::uint64_t length = 0;
  std::size_t moved = 0;  ///< Of the length and the bytes together.
  bool is_done = false;
};

/// The messages of one channel from one process to another, in order, at one of their ends.
class Stream {
 public:
  explicit Stream(Ring ring) : ring_(ring) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  std::shared_ptr<Message> add(Message message);
  /// Moves on what can be moved, never waits.
  void advance();
  /// The message is not waited for any more. One of which a part is gone ends the stream: nothing moves behind it.
  void give_up(const Message& message);

 protected:
  Ring ring_;

 private:
  virtual bool move(Message& message) = 0;

  std::deque<std::shared_ptr<Message>> open_;
  bool is_broken_ = false;
};

class Outgoing final : public Stream {
 public:
  using Stream::Stream;

 private:
  bool move(Message& message) override;
};

class Incoming final : public Stream {
 public:
  using Stream::Stream;

 private:
  bool move(Message& message) override;
};

}  // namespace lockstep::backend::shared_memory
