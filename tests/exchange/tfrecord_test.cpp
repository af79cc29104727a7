#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/exchange.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// TFRecord files and tf.train.Example.

using namespace lockstep;
using tests::TemporaryFolder;

namespace {

std::string field(int number, const std::string& content) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(content.size()) + content;
}
std::string floats(const std::vector<float>& values) {
  std::string bytes(values.size() * 4, '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
std::string feature(const std::string& name, int kind, const std::string& list) {
  return field(1, field(1, name) + field(2, field(kind, list)));
}
std::string example(const std::string& features) { return field(1, features); }

data::Row parsed_example(const std::string& bytes) {
  return data::parse_example(std::as_bytes(std::span(bytes.data(), bytes.size())), "r");
}

/// Two records, "abc" and "", whose sums were computed bit by bit.
std::string file() {
  const auto sum = [](const std::string& text) {
    std::uint32_t crc = 0xFFFFFFFFU;
    for (const char c : text) {
      crc ^= static_cast<unsigned char>(c);
      for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0x82F63B78U : 0U);
    }
    crc = ~crc;
    const std::uint32_t masked = ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
    return std::string(reinterpret_cast<const char*>(&masked), 4);
  };
  std::string all;
  for (const std::string& record : {std::string("abc"), std::string()}) {
    const std::string length = std::string(1, static_cast<char>(record.size())) + std::string(7, '\0');
    all += length + sum(length) + record + sum(record);
  }
  return all;
}

}  // namespace

TEST_CASE("tfrecord_rows gives the bytes of records") {
  const TemporaryFolder folder;
  const data::SourcePtr records = data::tfrecord_rows(folder.write("two.tfrecord", file()));
  REQUIRE(records->rows() == 2);
  for (const std::int64_t i : {-1, 0, 1, 2}) records->expect(i);
  const data::Row first = records->row(0, data::RowKey(0, 0, 0));
  CHECK(first.at("record").type == ArrayType{uint8, {3}, {}});
  CHECK(std::memcmp(first.at("record").bytes.data(), "abc", 3) == 0);
  CHECK(records->row(1, data::RowKey(0, 0, 1)).at("record").bytes.empty());
  tests::expect_error<DataError>([&] { records->row(2, data::RowKey(0, 0, 0)); }, "which has 2 records");
}

TEST_CASE("tfrecord_rows says what is wrong with a file") {
  const TemporaryFolder folder;
  const std::string good = file();
  const auto refusal = [&](const std::string& bytes) {
    return tests::error_text<DataError>([&] {
      const data::SourcePtr records = data::tfrecord_rows(folder.write("bad", bytes));
      for (std::int64_t i = 0; i < records->rows(); ++i) records->row(i, data::RowKey(0, 0, i));
    });
  };
  CHECK(tests::contains(refusal(""), "the file has no record; expected at least one"));
  std::string damaged = good;
  damaged[0] = 4;
  CHECK(tests::contains(refusal(damaged), "byte 0: the length of record 0 does not have its sum"));
  damaged = good;
  damaged[13] = 'x';
  CHECK(tests::contains(refusal(damaged), "byte 12: record 0 does not have its sum; the file is damaged"));
  CHECK(tests::contains(refusal(good.substr(0, 14)), "the file ends in the record: 3 bytes expected, 2 found"));
  CHECK(tests::contains(refusal(good.substr(0, 17)), "the file ends in the sum of a record"));
}

TEST_CASE("parse_example reads lists of bytes, floats and whole numbers") {
  const data::Row row = parsed_example(
      example(feature("image", 1, field(1, "PNG")) + feature("x", 2, field(1, floats({1.5F, -2}))) +
              feature("y", 3, field(1, std::string("\x07\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01", 11))) +
              feature("words", 1, field(1, "a") + field(1, "bc")) + feature("none", 3, "")));
  CHECK(row.size() == 6);
  CHECK(row.at("image").type == ArrayType{uint8, {3}, {}});
  CHECK(data::elements<float>(row.at("x"))[1] == -2);
  CHECK(data::elements<std::int64_t>(row.at("y"))[0] == 7);
  CHECK(data::elements<std::int64_t>(row.at("y"))[1] == -1);
  CHECK(row.at("words/1").type == ArrayType{uint8, {2}, {}});
  CHECK(row.at("none").type == ArrayType{int64, {0}, {}});
  // Not packed, and fields that an Example has not.
  const data::Row loose = parsed_example(
      field(9, "other") + example(feature("y", 3, std::string("\x08\x05", 2)) + feature("x", 2, "\x0D" + floats({3}))));
  CHECK(data::elements<std::int64_t>(loose.at("y"))[0] == 5);
  CHECK(data::elements<float>(loose.at("x"))[0] == 3);
}

TEST_CASE("parse_example says what is wrong with a record") {
  const auto refusal = [](const std::string& bytes) {
    return tests::error_text<DataError>([&] { parsed_example(bytes); });
  };
  const std::string good = example(feature("x", 2, field(1, floats({1}))));
  for (std::size_t size = 1; size < good.size(); ++size)
    CHECK_THROWS_AS(parsed_example(good.substr(0, size)), DataError);
  CHECK(refusal("\x0B") == "[parse_example] r, byte 1: wire type 3; expected 0, 1, 2 or 5 of protocol buffers");
  CHECK(tests::contains(refusal(std::string(11, '\xFF')), "a whole number of more than ten bytes"));
  CHECK(tests::contains(refusal(example(field(1, ""))), "a feature without a name"));
  CHECK(tests::contains(refusal(example(feature("x", 2, field(1, "odd")))),
                        "floats of a number of bytes that 4 does not divide"));
}
