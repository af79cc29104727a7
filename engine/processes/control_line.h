#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/communicator.h>

namespace lockstep::processes {

using backend::Channel;
using backend::Communicator;
using backend::Transfer;

/// An error of a process that it has told the others.
struct Failure {
  std::uint64_t collectives = 0;  ///< That the process had done by then.
  std::string text;
  bool operator==(const Failure&) const = default;
};

/// News between processes beside their collectives: that one has failed, cannot go on for another's failure, or has ended;
/// and whether it is alive, and at work.
class ControlLine {
 public:
  using Clock = std::chrono::steady_clock;
  enum class News : std::uint32_t { failed, gave_up, ended, ended_after_failure, question, answer, answer_at_work };
  static constexpr std::size_t longest_text = 1999;

  /// What is known of another process.
  struct Peer {
    std::deque<Failure> failures;  ///< The oldest first; without those that all processes had alike.
    bool has_given_up = false;
    bool has_ended = false;
    bool ended_well = false;
    std::uint64_t collectives = 0;  ///< That it has taken part in, where it has ended.
    bool is_asked = false;          ///< Whether it is alive, and has not answered.
    Clock::time_point heard;        ///< When it last answered.
    Clock::time_point at_work;      ///< When it last answered that it is at work.
  };
  /// How a peer's failures are beside this process' own.
  enum class Likeness : std::uint8_t { same, other, unknown };

  /// `works`: how much this process is at, more than 0 where it is at work.
  ControlLine(Communicator& communicator, const std::atomic<int>& works);

  void tell_all(News news, std::uint64_t collectives, std::string_view text);
  /// Asks a process whether it is alive, unless it still has a question to answer.
  void ask(int process);
  /// Takes in what has arrived, answers questions, and moves on what is sent. Never waits.
  void poll();
  const Peer& peer(int process) const { return peers_[static_cast<std::size_t>(process)]; }
  /// The first process that failed before it had done so many collectives, or -1.
  int failed_peer(std::uint64_t collectives) const;
  /// `unknown`: the peer may still say.
  Likeness likeness(int process, std::span<const Failure> own) const;
  /// All have failed so: it is told to nobody again.
  void forget_failures(std::size_t count);
  bool all_have_ended() const;
  bool all_have_ended_well() const;
  bool is_sending() const { return !sent_.empty(); }

 private:
  struct Message {
    News news = News::failed;
    std::uint64_t collectives = 0;
    std::array<char, longest_text + 1> text{};
  };
  /// A message with the memory that it needs on its way.
  struct Letter {
    Message message;
    std::unique_ptr<Transfer> transfer;
  };

  void tell(int to, News news, std::uint64_t collectives, std::string_view text);
  void receive(int from);
  void note(int from);
  bool is_other(std::size_t process) const { return static_cast<int>(process) != communicator_.rank(); }

  Communicator& communicator_;
  const std::atomic<int>& works_;
  std::vector<Peer> peers_;
  std::vector<std::unique_ptr<Letter>> received_;  ///< By process; null for this one.
  std::list<Letter> sent_;
};

}  // namespace lockstep::processes
