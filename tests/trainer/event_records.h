#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temporary_folder.h"

// Reads TensorBoard's event files, written from the formats' own descriptions and apart from what writes them.
namespace lockstep::tests {

struct EventRecord {
  std::int64_t step = 0;
  double wall_time = 0;
  std::string version;  ///< Of the file, in its first record.
  std::string tag;
  float value = 0;
  std::string plugin;
  std::string text;
  int session_status = 0;
  bool sums_fit = true;
};

/// Bit by bit, as the polynomial says.
inline std::uint32_t slow_crc32c(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const bool one = (((static_cast<unsigned char>(c) >> bit) & 1U) ^ (crc & 1U)) != 0;
      crc = (crc >> 1) ^ (one ? 0x82F63B78U : 0U);
    }
  }
  return crc ^ 0xFFFFFFFFU;
}

/// One field after the other of a message of protocol buffers.
class MessageFields {
 public:
  explicit MessageFields(std::string bytes) : bytes_(std::move(bytes)) {}
  bool next() {
    if (at_ >= bytes_.size()) return false;
    const std::uint64_t key = varint();
    number = static_cast<int>(key >> 3);
    switch (key & 7) {
      case 0:
        integer = varint();
        break;
      case 1:
        bytes = taken(8);
        break;
      case 2:
        bytes = taken(varint());
        break;
      default:
        bytes = taken(4);
        break;
    }
    return true;
  }
  template <class T>
  T as() const {
    T value{};
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }

  int number = 0;
  std::uint64_t integer = 0;
  std::string bytes;

 private:
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<unsigned char>(bytes_.at(at_++));
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string taken(std::uint64_t count) {
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }

  std::string bytes_;
  std::size_t at_ = 0;
};

inline void read_value(const std::string& bytes, EventRecord& record) {
  for (MessageFields value(bytes); value.next();) {
    if (value.number == 1) record.tag = value.bytes;
    if (value.number == 2) record.value = value.as<float>();
    if (value.number == 8) {
      for (MessageFields tensor(value.bytes); tensor.next();) {
        if (tensor.number == 8) record.text = tensor.bytes;
      }
    }
    if (value.number != 9) continue;
    for (MessageFields metadata(value.bytes); metadata.next();) {
      MessageFields plugin(metadata.bytes);
      if (metadata.number == 1 && plugin.next()) record.plugin = plugin.bytes;
    }
  }
}

inline std::vector<EventRecord> event_records(const std::filesystem::path& file) {
  const std::string bytes = file_text(file);
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  const auto masked = [](std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U; };
  std::vector<EventRecord> records;
  for (std::size_t at = 0; at + 16 <= bytes.size();) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, sizeof length);
    const std::string data = bytes.substr(at + 12, length);
    EventRecord record;
    record.sums_fit =
        word(at + 8) == masked(slow_crc32c(bytes.substr(at, 8))) && word(at + 12 + length) == masked(slow_crc32c(data));
    for (MessageFields event(data); event.next();) {
      if (event.number == 1) record.wall_time = event.as<double>();
      if (event.number == 2) record.step = static_cast<std::int64_t>(event.integer);
      if (event.number == 3) record.version = event.bytes;
      MessageFields inner(event.number == 5 || event.number == 7 ? event.bytes : "");
      if (inner.next() && event.number == 5) read_value(inner.bytes, record);
      if (event.number == 7) record.session_status = static_cast<int>(inner.integer);
    }
    records.push_back(record);
    at += 16 + length;
  }
  return records;
}

}  // namespace lockstep::tests
