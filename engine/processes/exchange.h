#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/backend/communicator.h>

#include "engine/processes/collective.h"

namespace lockstep::processes {

using backend::Channel;
using backend::Communicator;
using backend::Transfer;

/// What this process sends to and receives from another one in a collective; either may be nothing.
struct Part {
  int process = 0;
  std::span<const std::byte> sent;
  std::span<std::byte> received;
};

/// Room for the first message of a collective to and from one process: a header, and what is short enough to go with it.
struct FirstMessages {
  static constexpr std::size_t bytes = 4096;
  static constexpr std::size_t room = bytes - sizeof(CollectiveHeader);
  std::array<std::byte, bytes> sent;
  std::array<std::byte, bytes> received;
};

/// One collective under way: to each process that takes part a message with the header, and, where that is longer, one
/// with what is moved. It is received once the other's header has come and is the same. Several may be under way: what
/// they send goes out at once, and since messages arrive in that order, one receives behind the one before it.
class Exchange {
 public:
  /// `first`: room for a message to and from each process, which stays as long as this.
  Exchange(Communicator& communicator, const CollectiveHeader& header, std::span<const Part> parts,
           std::span<FirstMessages> first);

  /// Moves things on, never waits. Whether anything has come or gone. `may_receive`: all that those before it receive is
  /// asked for by now.
  bool advance(bool may_receive = true);
  /// Whether all that it receives is asked for.
  bool has_all_headers() const { return missing_ == 0; }
  bool is_done() const { return open_ == 0; }
  /// Bytes that are still to come or to go.
  std::size_t bytes() const;
  /// A process that is in another collective, with its header; or null.
  const CollectiveHeader* other_header() const { return other_ < 0 ? nullptr : &header_of(other_); }
  int other_process() const { return other_; }
  /// Processes whose header has not come, and all with which it is not over.
  std::vector<int> missing() const;
  std::vector<int> awaited() const;
  bool has_header_of(int process) const;

 private:
  struct Side {
    Part part;
    std::unique_ptr<Transfer> first_sent, first_received, rest_sent, rest_received;
    bool has_header = false;
    bool is_done = false;
  };

  bool advance(Side& side, bool may_receive);
  bool take_header(Side& side);
  bool is_long(std::span<const std::byte> bytes) const { return bytes.size() > FirstMessages::room; }
  const CollectiveHeader& header_of(int process) const { return headers_[static_cast<std::size_t>(process)]; }

  Communicator& communicator_;
  CollectiveHeader own_;
  std::span<FirstMessages> first_;
  std::vector<Side> sides_;
  std::vector<CollectiveHeader> headers_;  ///< By process.
  std::size_t open_;
  std::size_t missing_;  ///< Processes whose header has not come.
  int other_ = -1;
};

}  // namespace lockstep::processes
