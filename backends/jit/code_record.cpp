#include "backends/jit/code_record.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/error.h>

namespace lockstep::backend::jit {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Whether a descriptor is of a regular file that this user owns. The map's name is known to all: a file that another user
/// has put there is not written.
bool is_own_file(int descriptor) {
  struct stat status {};
  return ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == ::geteuid();
}

bool write_all(int descriptor, std::span<const char> bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t wrote = ::write(descriptor, bytes.data() + done, bytes.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    done += static_cast<std::size_t>(wrote);
  }
  return true;
}

/// Follows no link. `more`: O_APPEND, or O_TRUNC.
void write_file(const std::filesystem::path& file, int more, std::span<const char> bytes) {
  const int descriptor = ::open(
      file.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (more & O_APPEND), 0644);
  bool is_written = descriptor >= 0 && is_own_file(descriptor);
  if (is_written && (more & O_TRUNC) != 0) is_written = ::ftruncate(descriptor, 0) == 0;
  is_written = is_written && write_all(descriptor, bytes);
  if (descriptor >= 0) is_written = ::close(descriptor) == 0 && is_written;
  if (is_written) return;
  throw BackendError("jit backend: " + file.string() +
                     " cannot be written, or is no file of this user's own; unset LOCKSTEP_PERF_MAP, or set "
                     "LOCKSTEP_DUMP_CODE to a folder that can");
}

/// Of letters and digits, so that it is a file's name and one word in a shell.
std::string file_name(int number, std::string_view label) {
  constexpr std::size_t longest = 100;
  std::string name(label.substr(0, longest));
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return std::to_string(number) + "-" + name + ".bin";
}

}  // namespace

CodeRecord::CodeRecord(std::filesystem::path map, std::filesystem::path folder)
    : map_(std::move(map)), folder_(std::move(folder)) {}

CodeRecord CodeRecord::of_environment() {
  const std::string wanted = environment("LOCKSTEP_PERF_MAP");
  const bool has_map = !wanted.empty() && wanted != "0";
  return {has_map ? "/tmp/perf-" + std::to_string(getpid()) + ".map" : "", environment("LOCKSTEP_DUMP_CODE")};
}

void CodeRecord::add(std::span<const std::byte> code, std::string_view label) {
  if (!map_.empty()) {
    std::ostringstream line;
    line << std::hex << reinterpret_cast<std::uintptr_t>(code.data()) << ' ' << code.size() << " lockstep:" << label
         << '\n';
    write_file(map_, O_APPEND, line.str());
  }
  if (folder_.empty()) return;
  std::error_code ignored;  // the file then cannot be written
  std::filesystem::create_directories(folder_, ignored);
  write_file(folder_ / file_name(number_++, label), O_TRUNC, {reinterpret_cast<const char*>(code.data()), code.size()});
}

}  // namespace lockstep::backend::jit
