// A filter of the kernel (seccomp) that hands each call of a kind to a process beside the program, which counts them and
// lets one fail. So all of a process's calls are met, on every thread and from within the C library, too: stdio, opendir,
// mkdtemp and the loader make calls that no function loaded before them (LD_PRELOAD) sees. The program stays the child of
// whoever started it, as mpirun wants it.
#include "tests/system_faults/failing_call.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep::tests {
namespace {

namespace fs = std::filesystem;

/// Where a call's path is: the argument with the folder's descriptor, -1: none, and that with the text.
struct PathArguments {
  int number;
  std::string_view name;
  int folder;
  int text;
};

/// Calls that name what they are of by a path; of others the first argument is a descriptor.
const std::vector<PathArguments>& path_calls() {
  static const std::vector<PathArguments> calls = {
      {SYS_openat, "openat", 0, 1},       {SYS_openat2, "openat2", 0, 1},   {SYS_renameat, "renameat", 0, 1},
      {SYS_renameat2, "renameat2", 0, 1}, {SYS_linkat, "linkat", 0, 1},     {SYS_symlinkat, "symlinkat", -1, 0},
      {SYS_unlinkat, "unlinkat", 0, 1},   {SYS_mkdirat, "mkdirat", 0, 1},   {SYS_newfstatat, "fstatat", 0, 1},
      {SYS_statx, "statx", 0, 1},         {SYS_fchmodat, "fchmodat", 0, 1}, {SYS_truncate, "truncate", -1, 0},
#ifdef SYS_open
      {SYS_open, "open", -1, 0},          {SYS_creat, "creat", -1, 0},      {SYS_rename, "rename", -1, 0},
      {SYS_link, "link", -1, 0},          {SYS_symlink, "symlink", -1, 0},  {SYS_unlink, "unlink", -1, 0},
      {SYS_rmdir, "rmdir", -1, 0},        {SYS_mkdir, "mkdir", -1, 0},      {SYS_stat, "stat", -1, 0},
      {SYS_lstat, "lstat", -1, 0},        {SYS_chmod, "chmod", -1, 0},
#endif
  };
  return calls;
}

fs::path read_link(const fs::path& link) {
  std::error_code ignored;
  return fs::read_symlink(link, ignored);
}

/// A process whose calls are watched.
class Watched {
 public:
  explicit Watched(std::uint32_t process) : folder_("/proc/" + std::to_string(process)) {}

  fs::path program() const { return read_link(folder_ / "exe"); }
  fs::path descriptor(int number) const { return folder_ / "fd" / std::to_string(number); }
  bool is_file(int number) const {
    struct stat status {};
    return ::stat(descriptor(number).c_str(), &status) == 0 && (S_ISREG(status.st_mode) || S_ISDIR(status.st_mode));
  }
  /// Whether code at this address is the loader's.
  bool is_of_loader(std::uint64_t address) const {
    std::ifstream maps(folder_ / "maps");
    for (std::string line; std::getline(maps, line);) {
      char* end = nullptr;
      const std::uint64_t first = std::strtoull(line.c_str(), &end, 16);
      const std::uint64_t last = std::strtoull(end + 1, nullptr, 16);
      if (address >= first && address < last) return line.find("/ld-") != std::string::npos;
    }
    return false;
  }
  /// The text at an address; empty where it may not be read.
  std::string text(std::uint64_t address) const {
    std::array<char, 4096> bytes{};
    const int memory = ::open((folder_ / "mem").c_str(), O_RDONLY | O_CLOEXEC);
    const ssize_t got = ::pread(memory, bytes.data(), bytes.size() - 1, static_cast<off_t>(address));
    ::close(memory);
    return got <= 0 ? "" : std::string(bytes.data());
  }
  /// What a call is of.
  std::string described(const seccomp_data& call) const {
    for (const PathArguments& known : path_calls()) {
      if (known.number != call.nr) continue;
      const fs::path path = text(call.args[static_cast<std::size_t>(known.text)]);
      const int folder = known.folder < 0 ? AT_FDCWD : static_cast<int>(call.args[0]);
      if (path.is_absolute() || folder == AT_FDCWD) return std::string(known.name) + " " + path.string();
      return std::string(known.name) + " " + (read_link(descriptor(folder)) / path).string();
    }
    if (call.nr == SYS_mmap) {
      const int file = static_cast<int>(call.args[4]);
      return "mmap of " + std::to_string(call.args[1]) + " bytes " +
             (file < 0 ? "" : read_link(descriptor(file)).string());
    }
    return "call " + std::to_string(call.nr) + " " + read_link(descriptor(static_cast<int>(call.args[0]))).string();
  }

 private:
  fs::path folder_;
};

/// Answers the calls that the filter hands over until the program has ended.
class Watcher {
 public:
  Watcher(int listener, const FailingCall& call, fs::path program)
      : listener_(listener), call_(call), program_(std::move(program)) {}

  CountedCalls watch() {
    for (;;) {
      pollfd waiting{listener_, POLLIN, 0};
      if (::poll(&waiting, 1, -1) < 0 || (waiting.revents & POLLIN) == 0) return counted_;
      seccomp_notif given{};
      if (::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &given) != 0) continue;  // its process is gone
      seccomp_notif_resp answer{};
      answer.id = given.id;
      if (fails(given)) {
        answer.error = -call_.error;
      } else {
        answer.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
      }
      ::ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
  }

 private:
  /// The loader's calls before the first one of another function are those before main.
  bool fails(const seccomp_notif& given) {
    const Watched process(given.pid);
    if (!has_begun_) {
      has_begun_ = process.program() == program_ && !process.is_of_loader(given.data.instruction_pointer);
      if (!has_begun_) return false;
    }
    if (call_.kind->of_files && !process.is_file(static_cast<int>(given.data.args[0]))) return false;
    const long number = counted_.calls++;
    if (number == call_.nth) counted_.failed = process.described(given.data);
    return number == call_.nth || (call_.lasts && call_.nth >= 0 && number > call_.nth);
  }

  int listener_;
  FailingCall call_;
  fs::path program_;
  bool has_begun_ = false;
  CountedCalls counted_;
};

/// The filter's end at which its calls are answered; negative where this system has none.
int filter_calls(const std::vector<int>& numbers) {
  std::vector<sock_filter> program = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
  };
  for (const int number : numbers) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
}

void send_descriptor(int socket, int descriptor) {
  char text = 1;
  iovec part{.iov_base = &text, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  static_cast<void>(::sendmsg(socket, &message, 0));
}

int received_descriptor(int socket) {
  char text = 0;
  iovec part{.iov_base = &text, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> room{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = room.data();
  message.msg_controllen = room.size();
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) <= 0) return -1;
  int descriptor = -1;
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header != nullptr) std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

/// The process beside the program; it has none of its files open.
[[noreturn]] void watch_and_record(int socket, const FailingCall& call, const fs::path& program,
                                   const fs::path& record) {
  ::setsid();  // a launcher that ends all of its job leaves it alone
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {0, 1, 2}) ::dup2(nothing, standard);
  ::dup2(socket, 3);
  ::close_range(4, ~0U, 0);
  const int listener = received_descriptor(3);
  if (listener < 0) ::_exit(1);
  const CountedCalls counted = Watcher(listener, call, program).watch();
  const fs::path unfinished = record.string() + ".unfinished";
  std::ofstream(unfinished) << counted.calls << '\n' << counted.failed << '\n';
  fs::rename(unfinished, record);
  ::_exit(0);
}

const char* setting(const char* name) {
  const char* const value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set");
  return value;
}

const CallKind& kind_of(std::string_view name) {
  return *std::ranges::find_if(call_kinds(), [&](const CallKind& kind) { return kind.name == name; });
}

}  // namespace

const std::vector<CallKind>& call_kinds() {
  static const std::vector<CallKind> kinds = {
      {.name = "open",
       .numbers = {SYS_openat, SYS_openat2,
#ifdef SYS_open
                   SYS_open, SYS_creat
#endif
       },
       .errors = {EMFILE, EIO, EACCES}},
      {.name = "read",
       .numbers = {SYS_read, SYS_pread64, SYS_readv, SYS_preadv},
       .errors = {EIO, EINTR},
       .of_files = true},
      {.name = "write",
       .numbers = {SYS_write, SYS_pwrite64, SYS_writev, SYS_pwritev},
       .errors = {ENOSPC, EIO, EINTR},
       .of_files = true},
      {.name = "close", .numbers = {SYS_close}, .errors = {EIO, ENOSPC}, .of_files = true},
      {.name = "fsync", .numbers = {SYS_fsync, SYS_fdatasync}, .errors = {EIO, ENOSPC}},
      {.name = "rename",
       .numbers = {SYS_renameat, SYS_renameat2,
#ifdef SYS_rename
                   SYS_rename
#endif
       },
       .errors = {ENOSPC, EIO, EACCES}},
      {.name = "link",
       .numbers = {SYS_linkat, SYS_symlinkat,
#ifdef SYS_link
                   SYS_link, SYS_symlink
#endif
       },
       .errors = {EPERM}},
      {.name = "mmap", .numbers = {SYS_mmap, SYS_mremap}, .errors = {ENOMEM}},
      {.name = "flock", .numbers = {SYS_flock}, .errors = {ENOLCK, EWOULDBLOCK, EINTR}},
      {.name = "ftruncate", .numbers = {SYS_ftruncate, SYS_truncate, SYS_fallocate}, .errors = {EIO, EFBIG}},
      {.name = "unlink",
       .numbers = {SYS_unlinkat,
#ifdef SYS_unlink
                   SYS_unlink, SYS_rmdir
#endif
       },
       .errors = {EIO, EACCES}},
      {.name = "mkdir",
       .numbers = {SYS_mkdirat,
#ifdef SYS_mkdir
                   SYS_mkdir
#endif
       },
       .errors = {ENOSPC, EACCES}},
      {.name = "getdents", .numbers = {SYS_getdents64}, .errors = {EIO}},
      {.name = "stat",
       .numbers = {SYS_newfstatat, SYS_fstat, SYS_statx,
#ifdef SYS_stat
                   SYS_stat, SYS_lstat
#endif
       },
       .errors = {EIO, EACCES}},
      {.name = "chmod",
       .numbers = {SYS_fchmod, SYS_fchmodat,
#ifdef SYS_chmod
                   SYS_chmod
#endif
       },
       .errors = {EPERM}},
      {.name = "thread", .numbers = {SYS_clone, SYS_clone3}, .errors = {EAGAIN}},
      {.name = "memfd", .numbers = {SYS_memfd_create}, .errors = {ENOMEM, EMFILE}},
      {.name = "random", .numbers = {SYS_getrandom}, .errors = {ENOSYS, EINTR}},
  };
  return kinds;
}

const std::string& no_watched_calls() {
  static const std::string reason = [] {
    const pid_t process = ::fork();
    if (process == 0) ::_exit(filter_calls({SYS_symlinkat}) < 0 ? 1 : 0);
    int status = 0;
    ::waitpid(process, &status, 0);
    return status == 0 ? std::string()
                       : std::string("this system lets no process answer another one's calls (seccomp)");
  }();
  return reason;
}

std::string with_failing_call(const FailingCall& call, const fs::path& program, const fs::path& record) {
  return "env LOCKSTEP_FAILING_KIND=" + std::string(call.kind->name) +
         " LOCKSTEP_FAILING_CALL=" + std::to_string(call.nth) +
         " LOCKSTEP_FAILING_ERROR=" + std::to_string(call.error) +
         " LOCKSTEP_FAILING_LASTS=" + (call.lasts ? "1" : "0") +
         " LOCKSTEP_FAILING_PROGRAM=" + fs::canonical(program).string() +
         " LOCKSTEP_FAILING_RECORD=" + record.string() + " " + fs::read_symlink("/proc/self/exe").string() +
         " --no-skip -tc=failing_call -- ";
}

std::optional<CountedCalls> counted_calls(const fs::path& record) {
  for (int i = 0; i < 1000 && !fs::exists(record); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  std::ifstream file(record);
  CountedCalls counted;
  if (!(file >> counted.calls)) return std::nullopt;
  file.ignore(1);
  std::getline(file, counted.failed);
  return counted;
}

void become_failing_program() {
  const FailingCall call{.kind = &kind_of(setting("LOCKSTEP_FAILING_KIND")),
                         .nth = std::stol(setting("LOCKSTEP_FAILING_CALL")),
                         .error = std::stoi(setting("LOCKSTEP_FAILING_ERROR")),
                         .lasts = *setting("LOCKSTEP_FAILING_LASTS") == '1'};
  const fs::path program = setting("LOCKSTEP_FAILING_PROGRAM"), record = setting("LOCKSTEP_FAILING_RECORD");
  for (const char* const name : {"KIND", "CALL", "ERROR", "LASTS", "PROGRAM", "RECORD"}) {
    ::unsetenv(("LOCKSTEP_FAILING_" + std::string(name)).c_str());
  }
  std::ifstream file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  std::vector<char*> arguments;
  for (auto word = std::ranges::find(words, "--"); word != words.end(); ++word) arguments.push_back(word->data());
  arguments.push_back(nullptr);
  file.close();

  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets.data()) != 0)
    throw std::runtime_error("no sockets");
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);  // where a system lets only parents look at a process's memory
  if (::fork() == 0) watch_and_record(sockets[1], call, program, record);
  send_descriptor(sockets[0], filter_calls(call.kind->numbers));
  ::execv(program.c_str(), arguments.data() + 1);
  throw std::runtime_error(program.string() + " cannot be started");
}

}  // namespace lockstep::tests
