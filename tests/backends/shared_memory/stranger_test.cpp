// What another user's process can do to a job's meeting in shared memory: nothing. It runs as nobody, which only root can
// arrange.
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <lockstep/error.h>

#include "backends/shared_memory/meeting.h"
#include "backends/shared_memory/segment.h"
#include "tests/support/forked.h"
#include "tests/support/other_user.h"
#include "tests/support/skip.h"

namespace lockstep::tests {
namespace {

namespace shared = backend::shared_memory;

/// A process that ends with the test, however that ends.
class Forked {
 public:
  explicit Forked(const std::function<int()>& child) : process_(::fork()) {
    if (process_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::alarm(30);
    try {
      ::_exit(child());
    } catch (...) {
      ::_exit(255);
    }
  }
  ~Forked() { static_cast<void>(end(SIGKILL)); }
  Forked(const Forked&) = delete;
  Forked& operator=(const Forked&) = delete;
  /// What it returned.
  int end(int signal = 0) {
    if (process_ <= 0) return -1;
    if (signal != 0) ::kill(process_, signal);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

 private:
  pid_t process_;
};

shared::Job job(int rank, int size = 2, const std::string& secret = "of the launcher") {
  return {.name = "strangers " + std::to_string(::getppid()), .secret = secret, .rank = rank, .size = size};
}

/// A file whose first byte says whose it is.
shared::File marked_file(char mark) {
  shared::File file(::memfd_create("lockstep_test", MFD_CLOEXEC));
  static_cast<void>(::pwrite(file.descriptor(), &mark, 1, 0));
  return file;
}
shared::File file_of_the_job(const shared::Job&) { return marked_file('j'); }
char mark_of(const shared::File& file) {
  char mark = 0;
  static_cast<void>(::pread(file.descriptor(), &mark, 1, 0));
  return mark;
}

/// The names of meeting sockets that this user's processes listen at, as every user of the machine sees them.
std::optional<std::string> name_of_a_meeting() {
  for (int i = 0; i < 2000; ++i) {
    std::ifstream sockets("/proc/net/unix");
    for (std::string line; std::getline(sockets, line);) {
      const std::size_t at = line.find("@lockstep-");
      if (at != std::string::npos) return line.substr(at + 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return std::nullopt;
}

struct Name {
  explicit Name(const std::string& name) {
    name.copy(address.sun_path + 1, sizeof(address.sun_path) - 2);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t length = 0;
};

/// Asks for the memory under that name, with any greeting; whether something came.
bool gets_something(const std::string& name, const std::string& greeting) {
  const Name at(name);
  const shared::File socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  if (::connect(socket.descriptor(), at.get(), at.length) != 0) return false;
  static_cast<void>(::send(socket.descriptor(), greeting.data(), greeting.size(), MSG_NOSIGNAL));
  ::shutdown(socket.descriptor(), SHUT_WR);
  std::array<char, 64> bytes{};
  return ::recv(socket.descriptor(), bytes.data(), bytes.size(), 0) > 0;
}

/// Hands a file of its own to whoever connects.
[[noreturn]] void serve_own_file(const std::string& name) {
  const Name at(name);
  const shared::File socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  if (::bind(socket.descriptor(), at.get(), at.length) != 0 || ::listen(socket.descriptor(), 100) != 0) ::_exit(3);
  const shared::File own = marked_file('s');
  for (;;) {
    const shared::File other(::accept(socket.descriptor(), nullptr, nullptr));
    char has_file = 1;
    iovec text{.iov_base = &has_file, .iov_len = 1};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
    msghdr message{};
    message.msg_iov = &text;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    cmsghdr* const beside = CMSG_FIRSTHDR(&message);
    beside->cmsg_level = SOL_SOCKET;
    beside->cmsg_type = SCM_RIGHTS;
    beside->cmsg_len = CMSG_LEN(sizeof(int));
    const int descriptor = own.descriptor();
    std::memcpy(CMSG_DATA(beside), &descriptor, sizeof(descriptor));
    ::sendmsg(other.descriptor(), &message, MSG_NOSIGNAL);
  }
}

int take_the_jobs_file(int rank, int size, const std::string& secret) {
  return mark_of(shared::share_file(job(rank, size, secret), file_of_the_job, 60)) == 'j' ? 0 : 1;
}

}  // namespace

TEST_CASE("another user who asks for a job's memory gets nothing, and the job goes on") {
  if (::geteuid() != 0) return skip(only_root);
  Forked host([] { return take_the_jobs_file(0, 3, "of the launcher"); });
  const std::optional<std::string> name = name_of_a_meeting();
  REQUIRE(name.has_value());
  for (const char* const greeting : {"", "x", "lockstep 1 of 3 of the launcher\n"}) {
    CHECK(forked([&] { return become_nobody() ? static_cast<int>(gets_something(*name, greeting)) : 9; }) == 0);
  }
  Forked first([] { return take_the_jobs_file(1, 3, "of the launcher"); });
  CHECK(forked([&] {
          return become_nobody() ? static_cast<int>(gets_something(*name, "lockstep 2 of 3 of the launcher\n")) : 9;
        }) == 0);
  Forked second([] { return take_the_jobs_file(2, 3, "of the launcher"); });
  CHECK(host.end() == 0);
  CHECK(first.end() == 0);
  CHECK(second.end() == 0);
}

TEST_CASE("a process of the same user without the job's secret gets nothing") {
  Forked host([] { return take_the_jobs_file(0, 2, "of the launcher"); });
  const std::optional<std::string> name = name_of_a_meeting();
  REQUIRE(name.has_value());
  CHECK_FALSE(gets_something(*name, "lockstep 1 of 2 of another\n"));
  CHECK_FALSE(gets_something(*name, "lockstep 2 of 2 of the launcher\n"));
  Forked other([] { return take_the_jobs_file(1, 2, "of the launcher"); });
  CHECK(host.end() == 0);
  CHECK(other.end() == 0);
}

TEST_CASE("another user who serves under the job's name serves nobody, before the job and after it") {
  if (::geteuid() != 0) return skip(only_root);
  std::optional<std::string> name;
  {  // the name, from a job that ends before its others have come
    Forked host([] { return take_the_jobs_file(0, 2, ""); });
    name = name_of_a_meeting();
    REQUIRE(name.has_value());
  }
  Forked stranger([&]() -> int {
    if (!become_nobody()) return 9;
    serve_own_file(*name);
  });
  Forked late([] { return take_the_jobs_file(1, 2, ""); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it has met the stranger by then
  Forked host([] { return take_the_jobs_file(0, 2, ""); });
  CHECK(late.end() == 0);
  CHECK(host.end() == 0);
}

TEST_CASE("the name of a job's socket hangs on its secret") {
  std::array<std::optional<std::string>, 2> names;
  for (const bool again : {false, true}) {
    Forked host([&] { return take_the_jobs_file(0, 2, again ? "one" : "another"); });
    names.at(static_cast<std::size_t>(again)) = name_of_a_meeting();
  }
  REQUIRE(names[0].has_value());
  CHECK(names[0] != names[1]);
}

TEST_CASE("the memory of a job is sealed: nobody who has it makes it shorter or longer") {
  const shared::File file = shared::Segment::make({.name = "sealed", .secret = "", .rank = 0, .size = 2});
  if (!file.is_open()) return skip("this system has no file so large");
  const int seals = ::fcntl(file.descriptor(), F_GET_SEALS);
  CHECK((seals & F_SEAL_SHRINK) != 0);
  CHECK((seals & F_SEAL_GROW) != 0);
  CHECK((seals & F_SEAL_SEAL) != 0);
  CHECK(::ftruncate(file.descriptor(), 0) != 0);
  CHECK(errno == EPERM);
  struct stat status {};
  REQUIRE(::fstat(file.descriptor(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0600);
  CHECK_THROWS_WITH_AS(shared::Segment(marked_file('x'), 2), doctest::Contains("process 0's file has 1 bytes"),
                       CommunicatorError);
}

}  // namespace lockstep::tests
