#include "backends/shared_memory/meeting.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <lockstep/error.h>

namespace lockstep::backend::shared_memory {
namespace {

using Clock = std::chrono::steady_clock;

/// How long the others are waited for.
struct Deadline {
  explicit Deadline(double given) : seconds(given), end(Clock::now()) {
    end += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(given));
  }
  double seconds;
  Clock::time_point end;
};

[[noreturn]] void refuse(const std::string& what) {
  throw CommunicatorError("shared_memory: " + what + "; set LOCKSTEP_COMMUNICATOR=mpi to go without.");
}
[[noreturn]] void refuse_for_errno(const std::string& what) { refuse(what + " failed: " + std::strerror(errno)); }

/// For processes that a launcher started, and that have ended before they came, hang, or do something else.
[[noreturn]] void give_up_start(const std::string& who, const Job& job, double seconds, const std::string& more) {
  std::ostringstream limit;
  limit << seconds;
  throw CommunicatorError("shared_memory: " + who + " of " + std::to_string(job.size) + " did not connect within " +
                          limit.str() + " s" + more +
                          "; see whether it has ended, what it printed, and whether its main connects (world(), or a "
                          "map over all processes) as the others do, or give it longer: LOCKSTEP_COLLECTIVE_TIMEOUT.");
}

/// How many names a job's socket may have: where a stranger has taken the first one, process 0 takes the next.
constexpr int names = 16;

/// A name that begins with a zero is in no folder, and gone with the socket. Where there is a secret nobody else can tell
/// the name before the socket is there.
struct Address {
  Address(const Job& job, int number) {
    const std::size_t hash = std::hash<std::string>{}(job.name + " " + job.secret);
    std::string name = "lockstep-" + std::to_string(geteuid()) + "-" + std::to_string(hash);
    if (number > 0) name += "-" + std::to_string(number);
    name.copy(value.sun_path + 1, sizeof(value.sun_path) - 2);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }

  sockaddr_un value{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t length = 0;
};

/// Whether the process at the other end runs for this process's user: the system says so, nothing that it sends.
bool is_of_this_user(const File& socket) {
  ucred other{};
  socklen_t length = sizeof(other);
  return ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == geteuid();
}

File new_socket() {
  File socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) refuse_for_errno("socket");
  return socket;
}

/// Whether something has come before the time is over.
bool wait_for(const File& socket, Clock::time_point end) {
  pollfd asked{.fd = socket.descriptor(), .events = POLLIN, .revents = 0};
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    const int found = ::poll(&asked, 1, static_cast<int>(left));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR) refuse_for_errno("poll");
  }
}

/// Reads as many bytes, or fewer where the time is over or the other end has closed.
std::string bytes_from(const File& socket, std::size_t count, Clock::time_point end) {
  std::string bytes;
  while (bytes.size() < count && wait_for(socket, end)) {
    std::array<char, 256> part{};
    const ssize_t got = ::recv(socket.descriptor(), part.data(), std::min(part.size(), count - bytes.size()), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    bytes.append(part.data(), static_cast<std::size_t>(got));
  }
  return bytes;
}

/// What a process says first: which one it is, and that it is of the job.
std::string greeting(const Job& job, int rank) {
  return "lockstep " + std::to_string(rank) + " of " + std::to_string(job.size) + " " + job.secret + "\n";
}

/// The process at the other end; nothing where it is none of the job's, says nothing in time, or has come before.
std::optional<int> greeted_rank(const File& socket, const Job& job, const std::vector<bool>& has_come) {
  // Whoever belongs to the job says it at once: nobody keeps the others waiting.
  constexpr std::chrono::seconds patience{5};
  const Clock::time_point end = Clock::now() + patience;
  std::string text = bytes_from(socket, greeting(job, 1).size(), end);
  for (int rank = 1; rank < job.size; ++rank) {
    if (has_come[static_cast<std::size_t>(rank)]) continue;
    const std::string expected = greeting(job, rank);
    // Ranks of more digits say more.
    if (text.size() < expected.size() && expected.starts_with(text)) {
      text += bytes_from(socket, expected.size() - text.size(), end);
    }
    if (text == expected) return rank;
  }
  return std::nullopt;
}

/// One byte, whether there is a file, and the file beside it.
struct Parcel {
  Parcel() {
    text.iov_base = &has_file;
    text.iov_len = 1;
    header.msg_iov = &text;
    header.msg_iovlen = 1;
    header.msg_control = room.data();
    header.msg_controllen = room.size();
  }

  char has_file = 0;
  iovec text{};
  msghdr header{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
};

/// Whether the other end was still there to take it.
bool give(const File& to, const File& file) {
  Parcel parcel;
  parcel.has_file = file.is_open() ? 1 : 0;
  if (file.is_open()) {
    cmsghdr* const beside = CMSG_FIRSTHDR(&parcel.header);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = file.descriptor();
    std::memcpy(CMSG_DATA(beside), &descriptor, sizeof(descriptor));
  } else {
    parcel.header.msg_controllen = 0;
  }
  return ::sendmsg(to.descriptor(), &parcel.header, MSG_NOSIGNAL) == 1;
}

/// Nothing where process 0 has closed instead.
std::optional<File> take_file(const File& from) {
  Parcel parcel;
  const ssize_t got = ::recvmsg(from.descriptor(), &parcel.header, MSG_CMSG_CLOEXEC);
  if (got == 0 || (got < 0 && errno == ECONNRESET)) return std::nullopt;
  if (got != 1) refuse_for_errno("recvmsg from process 0");
  if (parcel.has_file == 0) return File();
  const cmsghdr* const beside = CMSG_FIRSTHDR(&parcel.header);
  if (beside == nullptr || beside->cmsg_type != SCM_RIGHTS) refuse("process 0 sent no file");
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(beside), sizeof(descriptor));
  return File(descriptor);
}

/// A socket under the first of the job's names that nobody has taken.
File listening_socket(const Job& job) {
  for (int number = 0; number < names; ++number) {
    File socket = new_socket();
    const Address address(job, number);
    if (::bind(socket.descriptor(), address.get(), address.length) == 0) {
      if (::listen(socket.descriptor(), SOMAXCONN) != 0) refuse_for_errno("listen");
      return socket;
    }
    if (errno != EADDRINUSE) refuse_for_errno("bind");
  }
  refuse("other processes hold all " + std::to_string(names) + " names of the job's socket");
}

/// "process 1", or "processes 1, 3".
std::string missing(const std::vector<bool>& has_come) {
  std::string ranks;
  int count = 0;
  for (std::size_t rank = 1; rank < has_come.size(); ++rank) {
    if (!has_come[rank]) ranks += (count++ == 0 ? "" : ", ") + std::to_string(rank);
  }
  return (count == 1 ? "process " : "processes ") + ranks;
}

File host(const Job& job, File (*make)(const Job&), const Deadline& deadline) {
  const File socket = listening_socket(job);
  File file = make(job);
  std::vector<bool> has_come(static_cast<std::size_t>(job.size));
  int refused = 0;
  for (int come = 1; come < job.size;) {
    if (!wait_for(socket, deadline.end)) {
      give_up_start(missing(has_come), job, deadline.seconds,
                    refused == 0 ? "" : ", and " + std::to_string(refused) + " came that are none of the job's");
    }
    const File other(::accept4(socket.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!other.is_open() && (errno == EINTR || errno == ECONNABORTED || errno == EAGAIN)) continue;
    if (!other.is_open()) refuse_for_errno("accept");
    const std::optional<int> rank = is_of_this_user(other) ? greeted_rank(other, job, has_come) : std::optional<int>();
    if (!rank || !give(other, file)) {
      ++refused;
      continue;
    }
    has_come[static_cast<std::size_t>(*rank)] = true;
    ++come;
  }
  return file;
}

/// Process 0's file, where it is process 0 that has this name. One that fails is asked again.
std::optional<File> visit_once(const Job& job, int number, Clock::time_point end, bool& met_stranger) {
  const Address address(job, number);
  const File socket = new_socket();
  if (::connect(socket.descriptor(), address.get(), address.length) != 0) {
    if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) refuse_for_errno("connect");
    return std::nullopt;
  }
  if (!is_of_this_user(socket)) {
    met_stranger = true;
    return std::nullopt;
  }
  const std::string text = greeting(job, job.rank);
  const ssize_t sent = ::send(socket.descriptor(), text.data(), text.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(text.size()) || !wait_for(socket, end)) return std::nullopt;
  return take_file(socket);
}

File visit(const Job& job, const Deadline& deadline) {
  bool met_stranger = false;
  while (Clock::now() < deadline.end) {
    for (int number = 0; number < names; ++number) {
      if (std::optional<File> file = visit_once(job, number, deadline.end, met_stranger)) return *std::move(file);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  give_up_start("process 0", job, deadline.seconds,
                met_stranger ? ", and another user's process has the name of its socket" : "");
}

}  // namespace

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File share_file(const Job& job, File (*make)(const Job&), double seconds) {
  const Deadline deadline(seconds);
  return job.rank == 0 ? host(job, make, deadline) : visit(job, deadline);
}

}  // namespace lockstep::backend::shared_memory
