#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/exchange/weight_files.h>

#include "engine/exchange/zip_writer.h"
#include "tests/data/samples.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using tests::samples;
using tests::TemporaryFolder;

namespace {

/// `bytes` with a number of `size` bytes written at `at`.
std::string with(std::string bytes, std::size_t at, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

}  // namespace

TEST_CASE("T86: read_npz reads stored and deflated archives of NumPy") {
  const auto stored = data::read_npz(samples / "stored.npz");
  REQUIRE(stored.size() == 2);
  CHECK(stored.at("x").bytes == data::read_npy(samples / "float32.npy").bytes);
  CHECK(stored.at("y").type == ArrayType{int64, {2}, {}});
  CHECK(data::elements<std::int64_t>(stored.at("y"))[1] == 2);
  const auto deflated = data::read_npz(samples / "deflated.npz");
  CHECK(deflated.at("x").type == ArrayType{uint8, {64, 64}, {}});
  CHECK(deflated.at("x").bytes == std::vector<std::byte>(4096));
  CHECK(deflated.at("y").bytes == stored.at("x").bytes);
}

TEST_CASE(
    "of an archive with arrays that are no numbers the others are read; those are errors when they are asked for") {
  const auto npy = [](const std::string& descr, std::size_t bytes, const std::string& shape = "(2,)") {
    std::string dict = "{'descr': " + descr + ", 'fortran_order': False, 'shape': " + shape + ", }";
    dict.resize(117, ' ');
    return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + dict + '\n' + std::string(bytes, '\1');
  };
  for (const std::size_t count : {std::size_t{2}, std::size_t{100000}}) {
    const std::string shape = "(" + std::to_string(count) + ",)";
    exchange::ZipWriter zip("test", "t.npz");
    zip.add("dates.npy", npy("'<M8[ns]'", 8 * count, shape));
    zip.add("names.npy", npy("'<U5'", 20 * count, shape));
    zip.add("objects.npy", npy("'|O'", 50, shape));
    zip.add("fields.npy", npy("[('a', '<f4')]", 4 * count, shape));
    zip.add("x.npy", npy("'<f4'", 4 * count, shape));
    const std::vector<std::byte> bytes = std::move(zip).finish();
    data::NpzTables tables = data::parse_npz(bytes, "t.npz");
    CHECK(tables.size() == 1);
    CHECK(tables.at("x").type == ArrayType{float32, {static_cast<std::int64_t>(count)}, {}});
    CHECK(tables.left_out().size() == 4);
    const auto refusal = [&](const char* name) {
      return tests::error_text<DataError>([&] { static_cast<void>(tables.at(name)); });
    };
    CHECK(tests::contains(refusal("names"), "[read_npz] t.npz, entry 'names.npy'"));
    CHECK(tests::contains(refusal("names"), "descr is '<U5'; expected"));
    CHECK(tests::contains(refusal("dates"), "descr is '<M8[ns]'; expected"));
    CHECK(tests::contains(refusal("objects"), "Python objects are pickles, which are not read"));
    CHECK(tests::contains(refusal("fields"), "elements of several fields"));
    CHECK(refusal("y") == "[read_npz] t.npz has no array 'y'; there are 'x'");
    const TemporaryFolder folder;
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    CHECK(exchange::load_npz(folder.write("t.npz", text)).size() == 1);
    std::string damaged = text;
    damaged[damaged.find("<U5") + 120] = '\2';  // what is left out is checked, too
    tests::expect_error<DataError>([&] { data::read_npz(folder.write("damaged.npz", damaged)); },
                                   "'names.npy' has CRC-32");
  }
}

TEST_CASE("read_npz refuses archives it cannot trust") {
  const std::string good = tests::file_text(samples / "deflated.npz");
  const std::size_t central = good.find("PK\x01\x02");
  const std::size_t second = good.find("PK\x01\x02", central + 1);
  const std::size_t end = good.find("PK\x05\x06");
  REQUIRE(end + 22 == good.size());
  const auto at = [](std::size_t place) { return "byte " + std::to_string(place); };
  const std::size_t local = good.find("PK\x03\x04", 1);
  std::string damaged_name = good;
  damaged_name[second + 46] = 'x';
  std::string same_name = damaged_name;
  same_name[local + 30] = 'x';
  std::string other_name = good;
  other_name[second + 49] = other_name[local + 33] = 'x';
  struct Bad {
    std::string bytes;
    std::string says;
  };
  const std::vector<Bad> table = {
      {"", "byte 0: the file has 0 bytes; a ZIP archive has 22 at least"},
      {std::string(100, 'x'), "byte 78: no end record of a ZIP archive; the file is no .npz file or was cut off"},
      {with(good, end + 4, 1, 2), at(end + 4) + ": the archive is in several parts; give one whole file"},
      {with(good, end + 16, 0xFFFFFFF0, 4), "byte 4294967280: the file ends in the directory"},
      {with(good, end + 12, 0xFFFFFF00, 4), at(central) + ": the file ends in the directory"},
      {with(good, end + 12, end - central + 1, 4), at(central) + ": the directory overlaps the end record"},
      {with(with(good, end + 8, 60000, 2), end + 10, 60000, 2),
       at(end) + ": 60000 entries in a directory of " + std::to_string(end - central)},
      {with(good, central, 0, 4), at(central) + ": no entry of the directory begins here"},
      {with(good, central + 8, 1, 2), at(central + 8) + ": entry 'x.npy' is encrypted; save it without a password"},
      {with(good, central + 10, 12, 2),
       at(central + 10) + ": entry 'x.npy' is packed by method 12; expected 0 (stored) or 8 (deflated)"},
      {with(good, central + 20, 0xFFFFFF00, 4), ": the file ends in the entry 'x.npy': 4294967040 bytes expected"},
      {with(good, central + 24, 0xFFFFFF00, 4), at(central + 24) + ": entry 'x.npy' says 4294967040 bytes, which its"},
      {with(good, central + 24, 4096, 4),
       "entry 'x.npy' is damaged or longer than the 4096 bytes that the directory says"},
      {with(good, central + 20, 100, 4), "entry 'x.npy' ends 1 bytes before the 100 that the directory says"},
      {with(good, central + 24, 4225, 4), "entry 'x.npy': 4225 bytes expected, 4224 found"},
      {with(good, central + 16, 7, 4), ", expected 7; the file is damaged"},
      {with(good, central + 28, 60000, 2),
       at(central + 46) + ": the file ends in the entry's name: 60000 bytes expected"},
      {with(good, central + 30, 60000, 2), ": the file ends in the entry's extra field"},
      {with(good, central + 42, 5, 4), "byte 5: no local header of entry 'x.npy' begins here"},
      {with(good, central + 42, 0xFFFFFFF0, 4), "byte 4294967280: the file ends in the entry's local header"},
      {with(good, central + 20, 200, 4), ": entries 'x.npy' and 'y.npy' overlap"},
      {with(good, central + 46, 0, 1), at(central + 46) + ": NUL in an entry's name"},
      {damaged_name,
       at(local + 30) + ": entry 'x.npy' of the directory is called 'y.npy' in its local header; the file is"},
      {with(with(good, end + 8, 1, 2), end + 10, 1, 2),
       at(second) + ": 1 entries end here, the directory at byte " + std::to_string(end)},
      {with(good, end + 8, 1, 2), "the archive is in several parts"},
      {same_name, at(second) + ": two entries are called 'x.npy'"},
      {other_name, ": entry 'y.nxy' is no array; expected names ending in .npy"},
  };
  for (const Bad& bad : table) {
    CAPTURE(bad.says);
    const TemporaryFolder folder;
    const auto path = folder.write("bad.npz", bad.bytes);
    tests::expect_error<DataError>([&] { data::read_npz(path); }, "[read_npz] " + path.string(), bad.says);
  }
}
