#include <cstring>
#include <utility>
#include <vector>

#include <lockstep/exchange/tfrecord.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"

// tf.train.Example in the wire form of protocol buffers: Example {1: Features}, Features {1: entries}, an entry {1: name, 2:
// Feature}, a Feature one of {1: bytes, 2: floats, 3: whole numbers}, each {1: elements}.
namespace lockstep::data {
namespace {

using Bytes = std::span<const std::byte>;

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

/// Fields of a message, one after the other.
class Message {
 public:
  Message(Bytes bytes, const std::string& record) : bytes_(bytes), file_(bytes, record, "parse_example") {}

  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t key = varint();
    field_ = key >> 3;
    wire_ = static_cast<Wire>(key & 7);
    switch (wire_) {
      case Wire::varint:
        number_ = varint();
        return true;
      case Wire::fixed64:
        content_ = taken(8);
        return true;
      case Wire::bytes:
        content_ = taken(varint());
        return true;
      case Wire::fixed32:
        content_ = taken(4);
        return true;
    }
    file_.fail(at_, "wire type " + std::to_string(key & 7) + "; expected 0, 1, 2 or 5 of protocol buffers");
  }
  std::uint64_t field() const { return field_; }
  Wire wire() const { return wire_; }
  Bytes content() const { return content_; }
  std::uint64_t number() const { return number_; }
  /// Whether this is that field, of bytes.
  bool is(std::uint64_t field) const { return field_ == field && wire_ == Wire::bytes; }
  [[noreturn]] void fail(const std::string& what) const { file_.fail(at_, what); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = std::to_integer<std::uint64_t>(taken(1)[0]);
      value |= (byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    file_.fail(at_, "a whole number of more than ten bytes");
  }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  Bytes taken(std::uint64_t size) {
    const Bytes part = file_.part(at_, size, "message");
    at_ += size;
    return part;
  }

  Bytes bytes_;
  FileBytes file_;
  std::uint64_t at_ = 0, field_ = 0, number_ = 0;
  Wire wire_ = Wire::varint;
  Bytes content_;
};

HostTable bytes_table(Bytes bytes) { return {{DType::uint8, {std::ssize(bytes)}, {}}, {bytes.begin(), bytes.end()}}; }

void add_bytes(Row& row, const std::string& name, Bytes list, const std::string& record) {
  std::vector<Bytes> parts;
  for (Message m(list, record); m.next();) {
    if (m.is(1)) parts.push_back(m.content());
  }
  if (parts.size() == 1) {
    row.insert_or_assign(name, bytes_table(parts[0]));
    return;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    row.insert_or_assign(name + "/" + std::to_string(i), bytes_table(parts[i]));
  }
}

HostTable floats_of(Bytes list, const std::string& record) {
  std::vector<float> values;
  for (Message m(list, record); m.next();) {
    if (m.field() != 1 || (m.wire() != Wire::bytes && m.wire() != Wire::fixed32)) continue;
    if (m.content().size() % sizeof(float) != 0) m.fail("floats of a number of bytes that 4 does not divide");
    const std::size_t before = values.size();
    values.resize(before + m.content().size() / sizeof(float));
    if (!m.content().empty()) std::memcpy(values.data() + before, m.content().data(), m.content().size());
  }
  return host_table(values, {std::ssize(values)});
}

HostTable numbers_of(Bytes list, const std::string& record) {
  std::vector<std::int64_t> values;
  for (Message m(list, record); m.next();) {
    if (m.field() != 1) continue;
    if (m.wire() == Wire::varint) values.push_back(static_cast<std::int64_t>(m.number()));
    if (m.wire() != Wire::bytes) continue;
    for (Message packed(m.content(), record); !packed.at_end();) {
      values.push_back(static_cast<std::int64_t>(packed.varint()));
    }
  }
  return host_table(values, {std::ssize(values)});
}

void add_feature(Row& row, const std::string& name, Bytes feature, const std::string& record) {
  for (Message m(feature, record); m.next();) {
    if (m.is(1)) add_bytes(row, name, m.content(), record);
    if (m.is(2)) row.insert_or_assign(name, floats_of(m.content(), record));
    if (m.is(3)) row.insert_or_assign(name, numbers_of(m.content(), record));
  }
}

void add_entry(Row& row, Bytes entry, const std::string& record) {
  std::string name;
  Bytes feature;
  Message m(entry, record);
  while (m.next()) {
    if (m.is(1)) name = as_text(m.content());
    if (m.is(2)) feature = m.content();
  }
  if (name.empty()) m.fail("a feature without a name");
  add_feature(row, name, feature, record);
}

}  // namespace

Row parse_example(std::span<const std::byte> bytes, const std::string& record) {
  Row row;
  for (Message example(bytes, record); example.next();) {
    if (!example.is(1)) continue;
    for (Message features(example.content(), record); features.next();) {
      if (features.is(1)) add_entry(row, features.content(), record);
    }
  }
  return row;
}

}  // namespace lockstep::data
