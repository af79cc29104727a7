#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/communicator.h>

namespace lockstep::processes {

using backend::Channel;
using backend::Communicator;
using backend::Transfer;

/// News between processes beside their collectives: that one has failed, or has ended.
class ControlLine {
 public:
  enum class News : std::uint32_t { failed, ended, ended_after_failure };

  /// What is known of another process.
  struct Peer {
    bool has_failed = false;
    bool has_ended = false;
    bool ended_well = false;
    std::uint64_t collectives = 0;  ///< That it has taken part in, where it has ended.
    std::string text;               ///< Of its failure.
  };

  explicit ControlLine(Communicator& communicator);

  void tell_all(News news, std::uint64_t collectives, std::string_view text);
  /// Takes in what has arrived and moves on what is sent. Never waits.
  void poll();
  const Peer& peer(int process) const { return peers_[static_cast<std::size_t>(process)]; }
  /// The first process that has failed, or -1.
  int failed_peer() const;
  bool all_have_ended() const;
  bool all_have_ended_well() const;
  bool is_sending() const { return !sent_.empty(); }

 private:
  struct Message {
    News news = News::failed;
    std::uint64_t collectives = 0;
    std::array<char, 2000> text{};
  };
  /// A message with the memory that it needs on its way.
  struct Letter {
    Message message;
    std::unique_ptr<Transfer> transfer;
  };

  void receive(int from);
  void note(int from);
  bool is_other(std::size_t process) const { return static_cast<int>(process) != communicator_.rank(); }

  Communicator& communicator_;
  std::vector<Peer> peers_;
  std::vector<std::unique_ptr<Letter>> received_;  ///< By process; null for this one.
  std::list<Letter> sent_;
};

}  // namespace lockstep::processes
