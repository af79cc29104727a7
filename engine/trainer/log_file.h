#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/files/open_file.h"

namespace lockstep::detail {

/// A text file of lines that grows, and of which a resumed run takes lines away. Each line is written by one call of the
/// system, so that a killed process leaves whole lines but for the last one, which is then dropped. Two may not
/// write one file. Throws CheckpointError naming file and system error.
class LogFile {
 public:
  /// Keeps the whole lines that are there for which `keep` says so. Makes parents.
  LogFile(std::filesystem::path path, const std::function<bool(const std::string& line)>& keep);
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// Closes it, where it can still be said that what was written is not whole. Throws CheckpointError.
  void finish();
  bool is_empty() const { return is_empty_; }
  std::vector<std::string> lines() const;
  void append(const std::string& line);
  /// All lines anew, whole or not at all.
  void rewrite(const std::vector<std::string>& lines);
  /// Each line as `changed` has it, nothing taking it away; the file is left alone where none is another one.
  void rewrite(const std::function<std::optional<std::string>(const std::string& line)>& changed);

 private:
  void open();
  int close();

  std::filesystem::path path_;
  bool is_empty_ = true;
  files::Descriptor file_;
  int owner_ = -1;  // the process that has opened it
};

/// A text as a field of a CSV file (RFC 4180): in quotes where it needs them.
std::string csv_cell(const std::string& text);

}  // namespace lockstep::detail
