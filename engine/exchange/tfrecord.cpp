#include <array>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/exchange/tfrecord.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"

// TensorFlow's records behind each other: a length of 8 bytes, its sum, so many bytes, their sum. Sums are CRC-32C
// (Castagnoli), turned by 15 bits and moved by a constant.
namespace lockstep::data {
namespace {

constexpr std::uint64_t header_bytes = 12, sum_bytes = 4;

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? 0x82F63B78U : 0U);
    table[i] = value;
  }
  return table;
}

std::uint32_t masked_sum(std::span<const std::byte> bytes) {
  static constexpr std::array<std::uint32_t, 256> table = crc_table();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const std::byte b : bytes) crc = table[(crc ^ std::to_integer<std::uint32_t>(b)) & 0xFFU] ^ (crc >> 8);
  crc = ~crc;
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

class Records final : public Source {
 public:
  explicit Records(const std::filesystem::path& path) : file_(path, "tfrecord_rows") {
    const FileBytes bytes(file_.bytes(), file_.name(), "tfrecord_rows");
    for (std::uint64_t at = 0; at < bytes.size();) {
      const auto length = bytes.number<std::uint64_t>(at, "length of a record");
      if (bytes.number<std::uint32_t>(at + 8, "sum of a length") != masked_sum(bytes.part(at, 8, "length"))) {
        bytes.fail(at, "the length of record " + std::to_string(records_.size()) + " does not have its sum");
      }
      at += header_bytes;
      static_cast<void>(bytes.part(at, length, "record"));
      static_cast<void>(bytes.part(at + length, sum_bytes, "sum of a record"));
      records_.emplace_back(at, length);
      at += length + sum_bytes;
    }
    if (records_.empty()) bytes.fail(0, "the file has no record; expected at least one");
  }
  std::int64_t rows() const override { return std::ssize(records_); }
  Row row(std::int64_t i, const RowKey&) const override {
    if (i < 0 || i >= rows()) {
      throw DataError(fmt::format("[tfrecord_rows] row {} of {}, which has {} records", i, file_.name(), rows()));
    }
    const auto [at, length] = records_[static_cast<std::size_t>(i)];
    const std::span<const std::byte> whole = file_.bytes(at, length + sum_bytes);
    const FileBytes bytes(whole, file_.name(), "tfrecord_rows");
    const std::span<const std::byte> record = whole.first(length);
    if (bytes.number<std::uint32_t>(length, "sum of a record") != masked_sum(record)) {
      throw DataError(fmt::format("[tfrecord_rows] {}, byte {}: record {} does not have its sum; the file is damaged",
                                  file_.name(), at, i));
    }
    return {
        {"record", HostTable{{DType::uint8, {static_cast<std::int64_t>(length)}, {}}, {record.begin(), record.end()}}}};
  }
  void expect(std::int64_t i) const override {
    if (i < 0 || i >= rows()) return;
    const auto [at, length] = records_[static_cast<std::size_t>(i)];
    file_.expect(at, length + sum_bytes);
  }

 private:
  MappedFile file_;
  std::vector<std::pair<std::size_t, std::size_t>> records_;  ///< Where each begins, and its length.
};

}  // namespace

SourcePtr tfrecord_rows(const std::filesystem::path& path) { return std::make_shared<Records>(path); }

}  // namespace lockstep::data
