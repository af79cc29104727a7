#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "engine/files/open_file.h"

namespace lockstep::detail {

/// CRC-32C (Castagnoli), of RFC 3720.
std::uint32_t crc32c(std::string_view bytes);

/// An event file of TensorBoard: records framed as TensorFlow's TFRecord, each an Event message of protocol buffers.
/// Throws CheckpointError naming file and system error.
class EventFile {
 public:
  /// A new file in the folder, which is made. Scalars of earlier files behind `step` are left out by who reads.
  EventFile(const std::filesystem::path& folder, std::int64_t step);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// What was written of `step` and behind it, here and in earlier files, is left out by who reads.
  void start(std::int64_t step);
  void scalar(const std::string& tag, double value, std::int64_t step);
  void text(const std::string& tag, const std::string& text, std::int64_t step);
  /// Closes it; nothing is written any more. Throws CheckpointError.
  void finish();
  const std::filesystem::path& path() const { return path_; }

 private:
  void summary(const std::string& value, std::int64_t step);
  void event(std::int64_t step, const std::string& what);

  std::filesystem::path path_;
  files::Descriptor file_;
};

}  // namespace lockstep::detail
