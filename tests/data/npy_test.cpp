#include <cstring>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/data.h>
#include <lockstep/error.h>

#include "tests/data/samples.h"
#include "tests/support/expect_error.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using data::HostTable;
using tests::little_endian;
using tests::npy;
using tests::samples;
using tests::TemporaryFolder;

namespace {

std::string dict(const std::string& descr, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n";
}

template <class T>
std::vector<T> values(const HostTable& table) {
  const auto span = data::elements<T>(table);
  return {span.begin(), span.end()};
}

}  // namespace

TEST_CASE("T86: read_npy reads what NumPy writes") {
  const HostTable numbers = data::read_npy(samples / "float32.npy");
  CHECK(numbers.type == ArrayType{float32, {2, 3}, {}});
  CHECK(values<float>(numbers) == std::vector<float>{0, 0.5F, 1, 1.5F, 2, 2.5F});
  const HostTable fortran = data::read_npy(samples / "fortran.npy");
  CHECK(fortran.type == ArrayType{int16, {2, 3, 4}, {}});
  for (std::int16_t i = 0; i < 24; ++i) CHECK(values<std::int16_t>(fortran)[static_cast<std::size_t>(i)] == i);
  CHECK(values<std::int32_t>(data::read_npy(samples / "big_endian.npy")) ==
        std::vector<std::int32_t>{0, 70000, 140000});
  const HostTable scalar = data::read_npy(samples / "scalar.npy");
  CHECK(scalar.type == ArrayType{float64, {}, {}});
  CHECK(values<double>(scalar) == std::vector<double>{2.5});
  const HostTable complex = data::read_npy(samples / "complex.npy");
  CHECK(complex.type == ArrayType{complex64, {2}, {}});
  float parts[4];
  std::memcpy(parts, complex.bytes.data(), sizeof parts);
  CHECK(std::vector<float>(parts, parts + 4) == std::vector<float>{1, 2, 3, -4});
  const HostTable bools = data::read_npy(samples / "version2.npy");
  CHECK(bools.type == ArrayType{bool_, {3}, {}});
  CHECK(bools.bytes == std::vector<std::byte>{std::byte{1}, std::byte{0}, std::byte{1}});
  const TemporaryFolder folder;
  const HostTable empty = data::read_npy(folder.write("empty", npy(dict("<f4", "(0, 1125899906842624)"), "")));
  CHECK(empty.type.shape == Shape{0, std::int64_t{1} << 50});
}

TEST_CASE("read_npy refuses what it cannot trust, and says where") {
  const std::string four(4, 'x');
  struct Bad {
    std::string bytes;
    std::string says;  ///< Behind the file's name.
  };
  const std::string kinds =
      "; expected a byte order and an element type such as '<f4', of bool, whole, floating or complex numbers";
  const std::string deep(100000, '(');
  const std::vector<Bad> table = {
      {"", "byte 0: the file ends in the magic text: 6 bytes expected, 0 found"},
      {"\x93NUMPX" + std::string(20, '\0'), "byte 0: the first 6 bytes are not \\x93NUMPY; this is no .npy file"},
      {npy(dict("<f4", "(1,)"), four, 0), "byte 6: version 0.0; expected 1.0, 2.0 or 3.0"},
      {npy(dict("<f4", "(1,)"), four, 4), "byte 6: version 4.0; expected 1.0, 2.0 or 3.0"},
      {std::string("\x93NUMPY\1\0\xFF\xFF", 10) + four,
       "byte 10: the file ends in the header: 65535 bytes expected, 4 found"},
      {std::string("\x93NUMPY\2\0\xF0\xFF\xFF\xFF", 12), "byte 8: a header of 4294967280 bytes; at most 65536"},
      {std::string("\x93NUMPY\2\0\1", 9),
       "byte 8: the file ends in the length of the header: 4 bytes expected, 1 found"},
      {npy("[1]", four), "byte 10: header: '{' expected, found '[1]'"},
      {npy("", four), "byte 10: header: '{' expected, found ''"},
      {npy("{'descr: 1}", four), "byte 11: header: a quote that does not end"},
      {npy(std::string("{\0'descr'", 9), four), "byte 11: header: a quoted text expected, found '?'descr''"},
      {npy("{'fortran_order': False, 'shape': (1,)}", four), "byte 49: header: 'descr' is missing"},
      {npy("{'descr': '<f4', 'shape': (1,)}", four), "byte 41: header: 'fortran_order' is missing"},
      {npy("{'descr': '<f4', 'fortran_order': False}", four), "byte 50: header: 'shape' is missing"},
      {npy("{'descr': '<f4', 'descr': '<f4'", four), "byte 35: header: 'descr' appears twice"},
      {npy("{'shape': (1,), 'other': 1}", four),
       "byte 34: header: unknown key 'other'; expected 'descr', 'fortran_order' and 'shape'"},
      {npy(dict("", "(1,)"), four), "byte 22: header: descr is ''" + kinds},
      {npy(dict("<i", "(1,)"), four), "byte 24: header: descr is '<i'" + kinds},
      {npy(dict("<ixy", "(1,)"), four), "byte 26: header: descr is '<ixy'" + kinds},
      {npy(dict("<f3", "(1,)"), four), "byte 25: header: descr is '<f3'" + kinds},
      {npy(dict("|O", "(1,)"), four),
       "byte 24: header: descr is '|O': Python objects are pickles, which are not read" + kinds},
      {npy("{'descr': [('a', '<f4')]", four),
       "byte 20: header: elements of several fields; save each field as an array of its own"},
      {npy("{'fortran_order': 1", four), "byte 28: header: True or False expected, found '1'"},
      {npy(dict("<f4", "(-1,)"), four), "byte 61: header: an extent of 0 to 2^63-1 expected, found '-1,), }?'"},
      {npy(dict("<f4", "(1.5,)"), four), "byte 62: header: ')' expected, found '.5,), }?'"},
      {npy(dict("<f4", "(18446744073709551616,)"), four),
       "byte 61: header: an extent of 0 to 2^63-1 expected, found '18446744073709551616,), }?'"},
      {npy(dict("<f4", "(0, 9223372036854775808)"), ""),
       "byte 64: header: an extent of 0 to 2^63-1 expected, found '9223372036854775808), }?'"},
      {npy(dict("<f4", "(1,1,1,1,1,1,1,1,1,1,1,1,1)"), four), "byte 86: header: shape has more than 12 dimensions"},
      {npy(dict("<f4", "(4294967296, 4294967296)"), four),
       "byte 88: shape (4294967296, 4294967296) of float32 needs more bytes than the 4 that follow the header"},
      {npy(dict("<f4", "(9223372036854775807, 0, 9223372036854775807)"), ""),
       "byte 109: shape (9223372036854775807, 0, 9223372036854775807): its extents multiply to more than 63 bits"},
      {npy(dict("<f4", "(2,)"), four),
       "byte 68: shape (2) of float32 needs more bytes than the 4 that follow the header"},
      {npy(dict("<f4", "(1,)"), four + "x"), "byte 68: shape (1) of float32 needs 4 bytes, 5 follow the header"},
      {npy(dict("<f4", "(0,)"), four), "byte 68: shape (0) of float32 needs 0 bytes, 4 follow the header"},
      {npy(dict("<f4", "()"), ""), "byte 66: shape () of float32 needs 4 bytes, 0 follow the header"},
      {npy(dict("|b1", "(2,)"), "\1\2"), "byte 69: a bool is 2; expected 0 or 1"},
      {npy(dict("<f4", deep.substr(0, 60000)), four),
       "byte 61: header: an extent of 0 to 2^63-1 expected, found '((((((((((((((((((((((((((((((((((((((((...'"},
      {npy(dict("<f4", "(1,)") + "x", four), "byte 68: header: text follows the dict: 'x'"},
      {npy("{'descr': '\xC3\xA9'}", four, 3),
       "byte 26: header: descr is '?"
       "?'" +
           kinds},
  };
  for (const Bad& bad : table) {
    CAPTURE(bad.says);
    const TemporaryFolder folder;
    const auto path = folder.write("bad.npy", bad.bytes);
    CHECK(tests::error_text<DataError>([&] { data::read_npy(path); }) ==
          "[read_npy] " + path.string() + ", " + bad.says);
  }
  const TemporaryFolder folder;
  tests::expect_error<DataError>([&] { data::read_npy(folder.path()); }, "is no regular file; give the path of a file");
  tests::expect_error<DataError>([&] { data::read_npy("/dev/zero"); }, "is no regular file");
  tests::expect_error<DataError>([&] { data::read_npy(folder.path() / "absent"); }, "no such file; check the path");
  std::filesystem::create_symlink("nowhere", folder.path() / "dangling");
  tests::expect_error<DataError>([&] { data::read_npy(folder.path() / "dangling"); }, "no such file");
}

TEST_CASE("rows of mapped .npy files are those of the arrays, and a file that is cut later is noticed") {
  const TemporaryFolder folder;
  std::string body;
  for (int i = 0; i < 6; ++i) body += little_endian(static_cast<std::uint64_t>(i), 4);
  const auto x = folder.write("x.npy", npy(dict("<i4", "(3, 2)"), body));
  const auto y = folder.write("y.npy", npy(dict("<i4", "(3,)"), body.substr(12)));
  const data::SourcePtr rows = data::npy_rows({{"x", x}, {"y", y}});
  CHECK(rows->rows() == 3);
  for (const std::int64_t i : {INT64_MIN, std::int64_t{-1}, std::int64_t{1}, std::int64_t{3}, INT64_MAX})
    rows->expect(i);
  const data::Row row = rows->row(1, data::RowKey(0, 0, 1));
  CHECK(values<std::int32_t>(row.at("x")) == std::vector<std::int32_t>{2, 3});
  CHECK(row.at("y").type == ArrayType{int32, {}, {}});
  CHECK(values<std::int32_t>(row.at("y")) == std::vector<std::int32_t>{4});
  std::filesystem::resize_file(x, 40);
  tests::expect_error<DataError>([&] { static_cast<void>(rows->row(1, data::RowKey(0, 0, 1))); },
                                 "8 bytes expected, the file now has 40 in all; it was cut while it was in use");
  tests::expect_error<DataError>([&] { static_cast<void>(rows->row(3, data::RowKey(0, 0, 1))); }, "row 3 of 3 rows");
  const auto two = folder.write("two.npy", npy(dict("<i4", "(2,)"), body.substr(16)));
  tests::expect_error<DataError>(
      [&] {
        data::npy_rows({{"a", two}, {"b", y}});
      },
      "y.npy has 3 rows, ", "two.npy has 2; give files of one number of rows");
  tests::expect_error<DataError>(
      [&] {
        data::npy_rows({{"x", samples / "fortran.npy"}});
      },
      "i16[2,3,4] in Fortran order");
  tests::expect_error<DataError>([&] { data::npy_rows({{"x", samples / "big_endian.npy"}}); }, "in big-endian order");
  tests::expect_error<DataError>(
      [&] {
        data::npy_rows({{"x", samples / "scalar.npy"}});
      },
      "holds f64[]; expected rows");
  tests::expect_error<DataError>([] { data::npy_rows({}); }, "no file is given");
}
