#include "backends/shared_memory/stream.h"

#include <cstddef>
#include <deque>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/support/expect_error.h"

namespace lockstep::tests {
namespace {

namespace shared = backend::shared_memory;

/// Both ends of a stream, in one process.
struct Ends {
  explicit Ends(std::size_t room) : bytes(room), out(shared::Ring(ring, bytes)), in(shared::Ring(ring, bytes)) {}

  shared::RingEnds ring;
  std::vector<std::byte> bytes;
  shared::Outgoing out;
  shared::Incoming in;
};

std::vector<std::byte> drawn(std::size_t count, std::mt19937_64& bits) {
  std::vector<std::byte> values(count);
  for (std::byte& value : values) value = static_cast<std::byte>(bits());
  return values;
}

}  // namespace

TEST_CASE("messages of drawn lengths arrive in order, however small the ring") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    std::mt19937_64 bits(seed);
    Ends ends(1 + bits() % 300);
    std::deque<std::vector<std::byte>> sent, received;
    std::vector<std::shared_ptr<shared::Message>> going, coming;
    for (int i = 0; i < 40; ++i) {
      sent.push_back(drawn(bits() % 700, bits));
      received.emplace_back(sent.back().size() + bits() % 3);
      if (bits() % 2 == 0) ends.in.advance();
      going.push_back(ends.out.add({.sent = sent.back(), .received = {}, .length = sent.back().size()}));
      coming.push_back(ends.in.add({.sent = {}, .received = received.back()}));
    }
    for (int i = 0; i < 100000 && !coming.back()->is_done; ++i)
      bits() % 2 == 0 ? ends.out.advance() : ends.in.advance();
    for (std::size_t i = 0; i < sent.size(); ++i) {
      CAPTURE(i);
      CHECK(going[i]->is_done);
      REQUIRE(coming[i]->is_done);
      received[i].resize(sent[i].size());
      CHECK(received[i] == sent[i]);
    }
  }
}

TEST_CASE("a message given up before a part of it is gone leaves the stream whole, one behind ends it") {
  std::vector<std::byte> first(10), second(20), room(20);
  second[0] = std::byte{7};
  Ends ends(16);
  const auto going = ends.out.add({.sent = second, .received = {}, .length = second.size()});
  const auto waiting = ends.out.add({.sent = first, .received = {}, .length = first.size()});
  ends.out.give_up(*waiting);
  const auto coming = ends.in.add({.sent = {}, .received = room});
  for (int i = 0; i < 10; ++i) ends.out.advance(), ends.in.advance();
  CHECK(going->is_done);
  CHECK(coming->is_done);
  CHECK(room == second);

  const auto half = ends.out.add({.sent = second, .received = {}, .length = second.size()});
  ends.out.give_up(*half);
  const auto behind = ends.out.add({.sent = first, .received = {}, .length = first.size()});
  const auto never = ends.in.add({.sent = {}, .received = room});
  for (int i = 0; i < 10; ++i) ends.out.advance(), ends.in.advance();
  CHECK_FALSE(behind->is_done);
  CHECK_FALSE(never->is_done);
}

TEST_CASE("a message that is longer than the room for it is an error") {
  Ends ends(64);
  const std::vector<std::byte> sent(9);
  std::vector<std::byte> room(8);
  ends.out.add({.sent = sent, .received = {}, .length = sent.size()});
  expect_error<CommunicatorError>([&] { ends.in.add({.sent = {}, .received = room}); },
                                  "a message of 9 bytes came, expected 8 at most", "run the same program");
}

}  // namespace lockstep::tests
