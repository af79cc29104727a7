#include "engine/trainer/event_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <span>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/error.h>
#include <lockstep/processes.h>

#include "engine/files/folder_entries.h"
#include "engine/files/open_file.h"

// The formats: tensorflow/core/util/event.proto and summary.proto, tensorflow/core/lib/io/record_writer.h.
namespace lockstep::detail {
namespace {

// ---- protocol buffers: a field is a varint of 8 * number + wire type, then its value.

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(0x80 | (value & 0x7F));
  out += static_cast<char>(value);
}
void put_little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i));
}
std::string varint_field(int number, std::int64_t value) {
  std::string out;
  put_varint(out, static_cast<std::uint64_t>(number) << 3);
  put_varint(out, static_cast<std::uint64_t>(value));
  return out;
}
std::string double_field(int number, double value) {
  std::string out;
  put_varint(out, static_cast<std::uint64_t>(number) << 3 | 1);
  put_little_endian(out, std::bit_cast<std::uint64_t>(value), 8);
  return out;
}
std::string float_field(int number, float value) {
  std::string out;
  put_varint(out, static_cast<std::uint64_t>(number) << 3 | 5);
  put_little_endian(out, std::bit_cast<std::uint32_t>(value), 4);
  return out;
}
std::string bytes_field(int number, std::string_view value) {
  std::string out;
  put_varint(out, static_cast<std::uint64_t>(number) << 3 | 2);
  put_varint(out, value.size());
  out += value;
  return out;
}

// ---- fields of messages

namespace event_fields {
constexpr int wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7;
}
namespace value_fields {  // of Summary.Value
constexpr int tag = 1, simple_value = 2, tensor = 8, metadata = 9;
}

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}

std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; }

std::string framed(const std::string& record) {
  std::string out;
  put_little_endian(out, record.size(), 8);
  put_little_endian(out, masked(crc32c(out)), 4);
  out += record;
  put_little_endian(out, masked(crc32c(record)), 4);
  return out;
}

double wall_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail_to_write_events(const std::filesystem::path& path, const files::FileError& error) {
  throw CheckpointError("[tensor_board] " + path.string() + " cannot be written: " + error.why() +
                        std::string(files::remedy_of(error.error())));
}

std::string host_name() {
  std::array<char, 256> host{};
  return gethostname(host.data(), host.size() - 1) == 0 ? host.data() : "unknown";
}

constexpr std::string_view name_prefix = "events.out.tfevents.";

/// Files of one folder are read in the order of their names: a new one's stands behind all that are there, whichever
/// process wrote them and whatever its clock said.
std::int64_t stamp_behind_all(const std::filesystem::path& folder) {
  auto stamp = static_cast<std::int64_t>(wall_time());
  for (const std::string& name : files::names_in(folder)) {
    if (!name.starts_with(name_prefix)) continue;
    std::int64_t there = 0;
    const std::string digits = name.substr(name_prefix.size(), 10);
    const auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), there);
    if (error == std::errc()) stamp = std::max(stamp, there + 1);
  }
  return stamp;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> table = crc_table();
  std::uint32_t crc = ~0U;
  for (const char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xFFU] ^ (crc >> 8);
  return ~crc;
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t step) {
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  std::int64_t stamp = 0;
  try {
    stamp = stamp_behind_all(folder);
  } catch (const files::FileError& error) {
    fail_to_write_events(folder, error);
  }
  for (int number = 0; !file_.is_open(); ++number) {
    path_ = folder / fmt::format("{}{:010}.{}.{}.{}", name_prefix, stamp, host_name(), getpid(), number);
    try {
      file_ = files::create_file(path_, O_APPEND);
    } catch (const files::FileError& error) {
      if (error.error() != EEXIST) fail_to_write_events(path_, error);
    }
  }
  event(0, bytes_field(event_fields::file_version, "brain.Event:2"));
  start(step + 1);
}

void EventFile::start(std::int64_t step) {
  constexpr int status = 1, started = 1;
  event(step, bytes_field(event_fields::session_log, varint_field(status, started)));
}

EventFile::~EventFile() = default;

void EventFile::finish() {
  if (::close(file_.release()) == 0) return;
  throw CheckpointError("[tensor_board] " + path_.string() + " cannot be closed: " + std::strerror(errno) +
                        "; its last events may be lost");
}

void EventFile::event(std::int64_t step, const std::string& what) {
  const std::string record =
      framed(double_field(event_fields::wall_time, wall_time()) + varint_field(event_fields::step, step) + what);
  const AtWork at_work(*world());
  try {
    files::write_all(file_, path_, std::as_bytes(std::span(record)));
  } catch (const files::FileError& error) {
    fail_to_write_events(path_, error);
  }
}

void EventFile::summary(const std::string& value, std::int64_t step) {
  event(step, bytes_field(event_fields::summary, bytes_field(1, value)));
}

void EventFile::scalar(const std::string& tag, double value, std::int64_t step) {
  summary(bytes_field(value_fields::tag, tag) + float_field(value_fields::simple_value, static_cast<float>(value)),
          step);
}

void EventFile::text(const std::string& tag, const std::string& text, std::int64_t step) {
  constexpr int plugin_data = 1, plugin_name = 1;      // of SummaryMetadata, of PluginData
  constexpr int dtype = 1, shape = 2, string_val = 8;  // of TensorProto
  constexpr int dim = 2, size = 1, type_string = 7;    // of TensorShapeProto, of Dim; DT_STRING
  const std::string metadata = bytes_field(plugin_data, bytes_field(plugin_name, "text"));
  const std::string tensor = varint_field(dtype, type_string) +
                             bytes_field(shape, bytes_field(dim, varint_field(size, 1))) +
                             bytes_field(string_val, text);
  summary(bytes_field(value_fields::tag, tag) + bytes_field(value_fields::tensor, tensor) +
              bytes_field(value_fields::metadata, metadata),
          step);
}

}  // namespace lockstep::detail
