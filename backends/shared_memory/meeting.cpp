#include "backends/shared_memory/meeting.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <lockstep/error.h>

namespace lockstep::backend::shared_memory {
namespace {

using Clock = std::chrono::steady_clock;

/// A launcher ends the job where a process ends before it has come: this is for one that hangs.
constexpr std::chrono::seconds longest_wait{300};

[[noreturn]] void refuse(const std::string& what) {
  throw CommunicatorError("shared_memory: " + what + "; set LOCKSTEP_COMMUNICATOR=mpi to go without.");
}
[[noreturn]] void refuse_for_errno(const std::string& what) { refuse(what + " failed: " + std::strerror(errno)); }

/// A name that begins with a zero is in no folder, and gone with the socket.
struct Address {
  explicit Address(const Job& job) {
    const std::string name =
        "lockstep-" + std::to_string(getuid()) + "-" + std::to_string(std::hash<std::string>{}(job.name));
    name.copy(value.sun_path + 1, sizeof(value.sun_path) - 2);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }

  sockaddr_un value{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t length = 0;
};

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

void give(const File& to, const File& file) {
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
  if (::sendmsg(to.descriptor(), &parcel.header, MSG_NOSIGNAL) != 1) refuse_for_errno("sendmsg");
}

File take_file(const File& from) {
  Parcel parcel;
  if (::recvmsg(from.descriptor(), &parcel.header, MSG_CMSG_CLOEXEC) != 1) refuse_for_errno("recvmsg from process 0");
  if (parcel.has_file == 0) return {};
  const cmsghdr* const beside = CMSG_FIRSTHDR(&parcel.header);
  if (beside == nullptr || beside->cmsg_type != SCM_RIGHTS) refuse("process 0 sent no file");
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(beside), sizeof(descriptor));
  return File(descriptor);
}

File host(const Job& job, File (*make)(const Job&), Clock::time_point end) {
  const Address address(job);
  const File socket = new_socket();
  if (::bind(socket.descriptor(), address.get(), address.length) != 0) refuse_for_errno("bind");
  if (::listen(socket.descriptor(), job.size) != 0) refuse_for_errno("listen");
  File file = make(job);
  for (int come = 1; come < job.size; ++come) {
    if (!wait_for(socket, end)) {
      refuse(std::to_string(come) + " of " + std::to_string(job.size) + " processes came within " +
             std::to_string(longest_wait.count()) + " s");
    }
    const File other(::accept4(socket.descriptor(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!other.is_open()) refuse_for_errno("accept");
    give(other, file);
  }
  return file;
}

File visit(const Job& job, Clock::time_point end) {
  const Address address(job);
  while (Clock::now() < end) {
    const File socket = new_socket();
    if (::connect(socket.descriptor(), address.get(), address.length) == 0) {
      if (!wait_for(socket, end)) break;
      return take_file(socket);
    }
    if (errno != ECONNREFUSED && errno != EAGAIN && errno != EINTR) refuse_for_errno("connect");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  refuse("process 0 did not come within " + std::to_string(longest_wait.count()) + " s");
}

}  // namespace

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File share_file(const Job& job, File (*make)(const Job&)) {
  const Clock::time_point end = Clock::now() + longest_wait;
  return job.rank == 0 ? host(job, make, end) : visit(job, end);
}

}  // namespace lockstep::backend::shared_memory
