#include "engine/trainer/log_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/files/close_locked.h"

namespace lockstep::detail {
namespace {

[[noreturn]] void fail_with_log(const std::filesystem::path& path, const std::string& doing, int error) {
  throw CheckpointError("[fit] " + path.string() + " cannot be " + doing + ": " + std::strerror(error));
}

void write_all(int descriptor, const std::string& text, const std::filesystem::path& path) {
  const AtWork at_work(*world());
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(descriptor, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) fail_with_log(path, "written", errno);
    done += static_cast<std::size_t>(wrote);
  }
}

/// Without what stands behind the last end of a line; of what is no file, none.
std::vector<std::string> whole_lines(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line) && !text.eof();) lines.push_back(line);
  return lines;
}

}  // namespace

LogFile::LogFile(std::filesystem::path path, const std::function<bool(const std::string& line)>& keep)
    : path_(std::move(path)) {
  std::error_code error;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
  open();  // first of all: a file that another one writes is left alone
  std::vector<std::string> kept;
  std::uintmax_t bytes = 0;
  for (std::string& line : whole_lines(path_)) {
    if (!keep(line)) continue;
    bytes += line.size() + 1;
    kept.push_back(std::move(line));
  }
  const std::uintmax_t there = std::filesystem::file_size(path_, error);
  is_empty_ = kept.empty();
  if (!error && there != bytes) rewrite(kept);
}

LogFile::~LogFile() { close(); }

void LogFile::open() {
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail_with_log(path_, "written", errno);
  owner_ = ::getpid();
  // Only who holds it is an error: not every system knows locks.
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK ||
      !std::filesystem::is_regular_file(path_)) {
    return;
  }
  close();
  throw CheckpointError("[fit] " + path_.string() +
                        " is written by another callback or process; give each of them a file of its own");
}

void LogFile::close() {
  if (descriptor_ < 0) return;
  files::close_locked(std::exchange(descriptor_, -1), owner_);
}

void LogFile::append(const std::string& line) {
  write_all(descriptor_, line + "\n", path_);
  is_empty_ = false;
}

std::vector<std::string> LogFile::lines() const { return whole_lines(path_); }

void LogFile::rewrite(const std::vector<std::string>& lines) {
  close();
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const std::filesystem::path beside = path_.parent_path() / ("." + path_.filename().string() + ".anew");
  const int descriptor = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0) fail_with_log(beside, "written", errno);
  try {
    write_all(descriptor, text, beside);
  } catch (...) {
    ::close(descriptor);
    ::unlink(beside.c_str());
    throw;
  }
  ::close(descriptor);
  if (std::rename(beside.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    ::unlink(beside.c_str());
    fail_with_log(path_, "written", error);
  }
  is_empty_ = lines.empty();
  open();
}

void LogFile::rewrite(const std::function<std::optional<std::string>(const std::string& line)>& changed) {
  const std::vector<std::string> before = lines();
  std::vector<std::string> after;
  for (const std::string& line : before) {
    if (std::optional<std::string> now = changed(line)) after.push_back(*std::move(now));
  }
  if (after != before) rewrite(after);
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

}  // namespace lockstep::detail
