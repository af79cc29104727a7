#include "engine/trainer/log_file.h"

#include <cerrno>
#include <cstring>
#include <span>
#include <sstream>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/files/close_locked.h"
#include "engine/files/open_file.h"

namespace lockstep::detail {
namespace {

/// What `work` on the file returns. Whatever it could not be, it cannot be written.
template <class Work>
auto as_log(const std::filesystem::path& path, const Work& work) {
  const AtWork at_work(*world());
  try {
    return work();
  } catch (const files::FileError& error) {
    throw CheckpointError("[fit] " + path.string() + " cannot be written: " + error.why() +
                          std::string(files::remedy_of(error.error())));
  }
}

/// Without what stands behind the last end of a line.
std::vector<std::string> whole_lines(const std::filesystem::path& path) {
  std::stringstream text(as_log(path, [&] { return files::read_text(path); }));
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

LogFile::~LogFile() { static_cast<void>(close()); }

void LogFile::finish() {
  const int error = close();
  if (error == 0) return;
  throw CheckpointError("[fit] " + path_.string() + " cannot be closed: " + std::strerror(error) +
                        "; its last lines may be lost");
}

void LogFile::open() {
  file_ = as_log(path_, [&] { return files::open_or_create(path_, O_WRONLY | O_APPEND); });
  owner_ = ::getpid();
  // Only who holds it is an error: not every system knows locks.
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return;
  static_cast<void>(close());
  throw CheckpointError("[fit] " + path_.string() +
                        " is written by another callback or process; give each of them a file of its own");
}

int LogFile::close() { return file_.is_open() ? files::close_locked(file_.release(), owner_) : 0; }

void LogFile::append(const std::string& line) {
  const std::string text = line + "\n";
  as_log(path_, [&] { files::write_all(file_, path_, std::as_bytes(std::span(text))); });
  is_empty_ = false;
}

std::vector<std::string> LogFile::lines() const { return whole_lines(path_); }

void LogFile::rewrite(const std::vector<std::string>& lines) {
  static_cast<void>(close());  // its lines are all written anew
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  as_log(path_, [&] { files::replace_text(path_, text); });
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
