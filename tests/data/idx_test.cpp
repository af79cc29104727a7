#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <zlib.h>

#include <lockstep/data.h>
#include <lockstep/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using tests::big_endian;
using tests::idx;
using tests::TemporaryFolder;

namespace {

std::string gzip(const std::string& plain) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, plain.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

TEST_CASE("read_idx reads plain and gzip files of every element type") {
  const TemporaryFolder folder;
  const std::string body = "\x01\x02\x03\x04\x05\x06";
  const auto plain = folder.write("plain", idx(0x08, {2, 3}, body));
  const auto packed = folder.write("packed.gz", gzip(idx(0x08, {2, 3}, body)));
  for (const auto& path : {plain, packed}) {
    const data::HostTable table = data::read_idx(path);
    CHECK(table.type == ArrayType{uint8, {2, 3}, {}});
    CHECK(std::memcmp(table.bytes.data(), body.data(), body.size()) == 0);
  }
  const data::HostTable ints = data::read_idx(folder.write("ints", idx(0x0C, {2}, big_endian(7) + big_endian(70000))));
  std::int32_t values[2];
  std::memcpy(values, ints.bytes.data(), sizeof values);
  CHECK(ints.type.dtype == int32);
  CHECK(values[0] == 7);
  CHECK(values[1] == 70000);
  CHECK(data::read_idx(folder.write("i8", idx(0x09, {1}, "x"))).type.dtype == int8);
  CHECK(data::read_idx(folder.write("i16", idx(0x0B, {1}, "xy"))).type.dtype == int16);
  CHECK(data::read_idx(folder.write("f32", idx(0x0D, {1}, "wxyz"))).type.dtype == float32);
  CHECK(data::read_idx(folder.write("f64", idx(0x0E, {1}, "wxyzwxyz"))).type.dtype == float64);
}

TEST_CASE("T86: read_idx refuses what it cannot trust, and says where") {
  const std::string six = "abcdef";
  const std::vector<std::uint32_t> wrapping64(8, 0xFFFFFFFF);
  struct Bad {
    std::string bytes;
    std::string says;
  };
  const std::vector<Bad> table = {
      {"", "ends in the magic number: 4 bytes expected, 0 found"},
      {std::string("\0\0\x08", 3), "4 bytes expected, 3 found"},
      {"\x01" + idx(0x08, {6}, six).substr(1), "no IDX file"},
      {idx(0x07, {6}, six), "unknown element type 7"},
      {idx(0x08, {}, ""), "rank 0"},
      {std::string("\0\0\x08\xFF", 4), "rank 255"},
      {idx(0x08, {6, 2}, "").substr(0, 9), "extent of dimension 1"},
      {idx(0x08, {0x03080000}, six), "need more bytes than the file can hold"},
      {idx(0x08, {0}, ""), "extent 0"},
      {idx(0x08, {0xFFFFFFFF}, six), "need more bytes"},
      {idx(0x08, {0x10000, 0x10000}, six), "need more bytes"},
      {idx(0x08, wrapping64, six), "need more bytes"},
      {idx(0x08, {8}, six + "g"), "8 bytes expected, 7 found"},
      {idx(0x08, {5}, six), "bytes follow the body"},
      {gzip(idx(0x08, {6}, six)).substr(0, 20), "damaged or cut short"},
      {gzip(idx(0x08, {7}, six)), "7 bytes expected, 6 found"},
      {gzip(idx(0x08, {5}, six)), "bytes follow the body"},
  };
  for (const Bad& bad : table) {
    const TemporaryFolder folder;
    const auto path = folder.write("bad", bad.bytes);
    tests::expect_error<DataError>([&] { static_cast<void>(data::read_idx(path)); }, bad.says);
    tests::expect_error<DataError>([&] { static_cast<void>(data::read_idx(path)); }, path.string());
  }
}

TEST_CASE("a flipped byte anywhere in a gzip body is noticed") {
  const TemporaryFolder folder;
  const std::string good = gzip(idx(0x08, {64}, std::string(64, 'q')));
  for (std::size_t at = good.size() - 8; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    CHECK_THROWS_AS(data::read_idx(folder.write("bad.gz", bad)), DataError);
  }
}

TEST_CASE("read_idx refuses paths that are no regular files") {
  const TemporaryFolder folder;
  const auto fifo = folder.path() / "fifo";
  REQUIRE(mkfifo(fifo.c_str(), 0600) == 0);
  tests::expect_error<DataError>([&] { static_cast<void>(data::read_idx(folder.path())); }, "no regular file");
  tests::expect_error<DataError>([&] { static_cast<void>(data::read_idx(fifo)); }, "no regular file");
  tests::expect_error<DataError>([&] { static_cast<void>(data::read_idx("/dev/zero")); }, "no regular file");
  tests::expect_error<DataError>([&] { static_cast<void>(data::read_idx(folder.path() / "absent")); }, "no such file");
}

TEST_CASE("load_fashion_mnist checks what belongs together") {
  const auto make = [](const TemporaryFolder& folder, const std::string& labels, std::uint32_t count) {
    for (const std::string split : {"train", "t10k"}) {
      folder.write(split + "-images-idx3-ubyte", idx(0x08, {2, 28, 28}, std::string(2 * 28 * 28, '\xFF')));
      folder.write(split + "-labels-idx1-ubyte", idx(0x08, {count}, labels));
    }
  };
  const TemporaryFolder good;
  make(good, std::string("\x09\x00", 2), 2);
  const data::FashionMnist sets = data::load_fashion_mnist(good.path());
  CHECK(sets.train.x.type == ArrayType{float32, {2, 28, 28, 1}, {}});
  CHECK(sets.test.y.type == ArrayType{int32, {2}, {}});
  float white = 0;
  std::memcpy(&white, sets.train.x.bytes.data(), sizeof white);
  CHECK(white == 1.0F);

  const TemporaryFolder ten;
  make(ten, std::string("\x0A\x00", 2), 2);
  tests::expect_error<DataError>([&] { static_cast<void>(data::load_fashion_mnist(ten.path())); }, "label 10 at row 0");
  const TemporaryFolder few;
  make(few, std::string("\x01", 1), 1);
  tests::expect_error<DataError>([&] { static_cast<void>(data::load_fashion_mnist(few.path())); },
                                 "1 labels for 2 images");
  const TemporaryFolder swapped;
  make(swapped, std::string("\x01\x01", 2), 2);
  std::filesystem::rename(swapped.path() / "train-labels-idx1-ubyte", swapped.path() / "train-images-idx3-ubyte");
  tests::expect_error<DataError>([&] { static_cast<void>(data::load_fashion_mnist(swapped.path())); },
                                 "expected images u8[N,28,28]");
  const TemporaryFolder none;
  tests::expect_error<DataError>([&] { static_cast<void>(data::load_fashion_mnist(none.path())); },
                                 "dataset-fashion-mnist");
}

TEST_CASE("the real Fashion-MNIST has 60,000 and 10,000 images of ten classes") {
  const data::FashionMnist sets = data::load_fashion_mnist(LOCKSTEP_FASHION_MNIST_DIR);
  CHECK(sets.train.rows() == 60000);
  CHECK(sets.test.rows() == 10000);
  std::vector<int> counts(10, 0);
  for (std::int64_t i = 0; i < sets.train.rows(); ++i) {
    std::int32_t label = 0;
    std::memcpy(&label, sets.train.y.bytes.data() + static_cast<std::size_t>(i) * sizeof label, sizeof label);
    ++counts[static_cast<std::size_t>(label)];
  }
  CHECK(counts == std::vector<int>(10, 6000));
}
