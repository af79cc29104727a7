// Archives that are far smaller than what is packed in them.
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <zlib.h>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/work_ratio.h"

// An archive's entry that grows a thousandfold when it is unpacked is an array's, or it is not unpacked.

namespace lockstep::tests {
namespace {

std::string little(std::uint64_t value, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

/// A .npy file's header of `count` bytes of uint8, and so many zeros behind it.
std::string npy_of(std::size_t count, std::size_t zeros) {
  std::string dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (" + std::to_string(count) + ",), }";
  dict.resize(117, ' ');
  dict += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + little(dict.size(), 2) + dict + std::string(zeros, '\0');
}

/// An archive with one deflated entry.
std::string archive_of(const std::string& plain) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, plain.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(packed.size() - stream.avail_out);
  deflateEnd(&stream);
  const std::string name = "a.npy";
  const auto crc = crc32_z(0, reinterpret_cast<const Bytef*>(plain.data()), plain.size());
  const std::string sizes = little(crc, 4) + little(packed.size(), 4) + little(plain.size(), 4);
  const std::string local = little(0x04034b50, 4) + little(20, 2) + little(0, 2) + little(8, 2) + little(0, 4) + sizes +
                            little(name.size(), 2) + little(0, 2) + name + packed;
  const std::string central = little(0x02014b50, 4) + little(20, 2) + little(20, 2) + little(0, 2) + little(8, 2) +
                              little(0, 4) + sizes + little(name.size(), 2) + std::string(12, '\0') + little(0, 4) +
                              name;
  return local + central + little(0x06054b50, 4) + little(0, 4) + little(1, 2) + little(1, 2) +
         little(central.size(), 4) + little(local.size(), 4) + little(0, 2);
}

}  // namespace

TEST_CASE("an entry that unpacks to far more than its array is refused before it is unpacked") {
  const TemporaryFolder folder;
  const std::string good = archive_of(npy_of(100000, 100000));
  CHECK(data::read_npz(folder.write("good.npz", good)).at("a").bytes == std::vector<std::byte>(100000));
  const auto run = [&](int n) {
    const auto file =
        folder.write("bad" + std::to_string(n) + ".npz", archive_of(npy_of(8, static_cast<std::size_t>(n))));
    return [file, n] {
      expect_error<DataError>([&] { static_cast<void>(data::read_npz(file)); },
                              "[read_npz] " + file.string() +
                                  ", entry 'a.npy', byte 128: shape (8) of uint8 needs 8 bytes, " + std::to_string(n) +
                                  " follow the header");
    };
  };
  CHECK(work_ratio(run, 1 << 24) < 1.6);  // what is not unpacked takes no work
}

}  // namespace lockstep::tests
