#include <cstdint>
#include <string>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "tests/bad_inputs/rows.h"
#include "tests/support/file_bytes.h"

namespace lockstep::tests {
namespace {

std::string dict(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

void npy_row(int number, const std::string& bytes) {
  refused_file<DataError>(number, bytes, [](const auto& path) { data::read_npy(path); });
}

data::HostTable read(const std::string& bytes) {
  const TemporaryFolder folder;
  return data::read_npy(folder.write("good", bytes));
}

const std::string four = "abcd";

}  // namespace

TEST_CASE("bad inputs 29 to 34: headers of npy files") {
  npy_row(29, "");
  npy_row(29, "\x93NUMPX" + std::string(20, '\0'));
  npy_row(30, npy(dict("<f4", "(1,)"), four, 0));
  npy_row(30, npy(dict("<f4", "(1,)"), four, 4));
  npy_row(31, std::string("\x93NUMPY\1\0\xFF\xFF", 10) + four);
  npy_row(31, std::string("\x93NUMPY\1\0\1", 9));
  npy_row(32, std::string("\x93NUMPY\2\0\xF0\xFF\xFF\xFF", 12));
  npy_row(32, std::string("\x93NUMPY\3\0\1\0\1\0", 12));
  npy_row(33, npy("[1]", four));
  npy_row(33, npy("", four));
  npy_row(33, npy("{'descr: 1}", four));
  npy_row(33, npy("{'descr': '<f4\"", four));
  npy_row(33, npy(std::string("{\0'descr'", 9), four));
  npy_row(33, npy("{'descr': '<f4'", four));
  npy_row(33, npy(dict("<f4", "(1,)") + "x", four));
  npy_row(34, npy("{'fortran_order': False, 'shape': (1,)}", four));
  npy_row(34, npy("{'descr': '<f4', 'shape': (1,)}", four));
  npy_row(34, npy("{'descr': '<f4', 'fortran_order': False}", four));
  npy_row(34, npy("{}", four));
  npy_row(34, npy("{'descr': '<f4', 'descr': '<f4'", four));
  npy_row(34, npy("{'shape': (1,), 'shape': (1,)", four));
  npy_row(34, npy("{'fortran_order': True, 'fortran_order': True", four));
  npy_row(34, npy("{'shape': (1,), 'other': 1}", four));
}

TEST_CASE("bad inputs 35 to 43: element types and shapes of npy files") {
  npy_row(35, npy(dict("", "(1,)"), four));
  npy_row(35, npy(dict("<i", "(1,)"), four));
  npy_row(35, npy(dict("<ixy", "(1,)"), four));
  npy_row(35, npy(dict("<f3", "(1,)"), four));
  npy_row(35, npy(dict("|O", "(1,)"), four));
  npy_row(35, npy(dict("<U4", "(1,)"), four));
  npy_row(35, npy("{'descr': [('a', '<f4')]", four));
  npy_row(35, npy("{'descr': 4", four));
  row(35,
      [] { CHECK(data::elements<float>(read(npy(dict(">f4", "(1,)"), std::string("\x3F\xC0\0\0", 4))))[0] == 1.5F); });
  row(36, [] {
    const auto table = read(npy(dict("|u1", "(2, 2)", "True"), four));
    CHECK(table.bytes == std::vector<std::byte>{std::byte{'a'}, std::byte{'c'}, std::byte{'b'}, std::byte{'d'}});
  });
  npy_row(36, npy(dict("|u1", "(2, 2)", "1"), four));
  npy_row(36, npy(dict("|u1", "(2, 2)", "'True'"), four));
  npy_row(37, npy(dict("<f4", "(-1,)"), four));
  npy_row(37, npy(dict("<f4", "(1.5,)"), four));
  npy_row(37, npy(dict("<f4", "(18446744073709551616,)"), four));
  npy_row(37, npy(dict("<f4", "(2,621, 401)"), four));
  npy_row(37, npy(dict("<f4", "(1e3,)"), four));
  npy_row(37, npy(dict("<f4", "1"), four));
  npy_row(37, npy(dict("<f4", "(1 1)"), four));
  std::string many = "(";
  for (int i = 0; i < 20000; ++i) many += "1,";
  npy_row(37, npy(dict("<f4", many + ")"), four));
  npy_row(38, npy(dict("<f4", "(4294967296, 4294967296)"), four));
  npy_row(38, npy(dict("<f8", "(2305843009213693953,)"), four + four));
  npy_row(38, npy(dict("<f4", "(9223372036854775807, 0, 9223372036854775807)"), ""));
  npy_row(39, npy(dict("<f4", "(2,)"), four));
  npy_row(39, npy(dict("<f4", "(1,)"), four + "x"));
  npy_row(39, npy(dict("<f4", "(0,)"), four));
  npy_row(39, npy(dict("|b1", "(2,)"), "\1\2"));
  row(40, [] { CHECK(read(npy(dict("<f4", "()"), four)).type == ArrayType{float32, {}, {}}); });
  npy_row(40, npy(dict("<f4", "()"), ""));
  npy_row(41, npy(dict("<f4", "(0, 9223372036854775808)"), ""));
  row(41, [] { CHECK(read(npy(dict("<f4", "(0, 1125899906842624)"), "")).bytes.empty()); });
  npy_row(42, npy("{'descr': '\xC3\xA9'}", four, 3));
  npy_row(42, npy("{'\xC3\xA9': 1}", four, 3));
  npy_row(43, npy(dict("<f4", std::string(60000, '(')), four));
  npy_row(43, npy(std::string(60000, '{'), four));
}

}  // namespace lockstep::tests
