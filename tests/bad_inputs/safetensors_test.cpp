#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/checkpoint.h>
#include <lockstep/data_files.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "tests/bad_inputs/rows.h"
#include "tests/support/file_bytes.h"

namespace lockstep::tests {
namespace {

std::string info(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

/// A file of one tensor "a".
std::string of(const std::string& dtype, const std::string& shape, const std::string& offsets,
               const std::string& data = "abcd") {
  return safetensors("{\"a\":" + info("\"" + dtype + "\"", shape, offsets) + "}", data);
}

void tensors_row(int number, const std::string& bytes) {
  refused_file<DataError>(number, bytes, [](const auto& path) { data::read_safetensors(path); });
}

std::vector<std::string> names_in(const std::string& bytes) {
  const TemporaryFolder folder;
  std::vector<std::string> names;
  for (const auto& [name, table] : data::read_safetensors(folder.write("good", bytes))) names.push_back(name);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  return names;
}

const std::string good = info("\"F32\"", "[1]", "[0,4]");

}  // namespace

TEST_CASE("bad inputs 44 to 48: lengths of a safetensors file") {
  for (std::size_t size = 0; size < 8; ++size) {
    tensors_row(44, little_endian(2).substr(0, size));
  }
  tensors_row(45, little_endian(0));
  tensors_row(45, little_endian(0) + "{}");
  tensors_row(46, little_endian(100000000));
  tensors_row(46, little_endian(100000001));
  row(46, [] {
    // The largest header that there may be, and one byte more, in files that have them.
    const TemporaryFolder folder;
    const auto path = folder.write("padded", little_endian(100000000) + "{}");
    const auto padded = [&](std::uint64_t size) {
      std::string bytes = little_endian(size) + "{\"a\":" + info("\"F32\"", "[0]", "[0,0]") + "}";
      bytes.resize(8 + size, ' ');
      return folder.write("padded", bytes);
    };
    CHECK(data::read_safetensors(padded(100000000)).size() == 1);
    refused<DataError>(46, [&] { data::read_safetensors(padded(100000001)); });
  });
  tensors_row(47, little_endian(~std::uint64_t{0}));
  tensors_row(47, little_endian(std::uint64_t{1} << 63));
  tensors_row(47, little_endian(~std::uint64_t{0} - 7) + "{}");
  tensors_row(48, little_endian(50) + "{}");
  tensors_row(48, little_endian(3) + "{}");
}

TEST_CASE("bad inputs 49 to 54: headers of a safetensors file") {
  tensors_row(49, safetensors("{\"a\xFF\":" + good + "}", "abcd"));
  tensors_row(49, safetensors("\xFF\xFE{}"));
  tensors_row(49, safetensors("{\"a\xED\xA0\x80\":" + good + "}", "abcd"));
  tensors_row(50, safetensors("[]"));
  tensors_row(50, safetensors("1"));
  tensors_row(50, safetensors("{}x"));
  tensors_row(50, safetensors("{\"a\":" + good + "}{}", "abcd"));
  tensors_row(50, safetensors("{\"a\":"));
  tensors_row(50, safetensors(std::string(100000, '[')));
  const std::string nested = std::string(1000000, '[') + std::string(1000000, ']');
  tensors_row(50, safetensors("{\"a\":" + info(nested, "[1]", "[0,4]") + "}", "abcd"));
  tensors_row(50, safetensors("{\"a\":" + info("\"F32\"", "[" + nested + "]", "[0,4]") + "}", "abcd"));
  tensors_row(50, safetensors("{\"__metadata__\":" + nested + "}"));
  tensors_row(50, safetensors("{\"a\":" + nested + "}"));
  tensors_row(51, safetensors(" {\"a\":" + good + "}", "abcd"));
  tensors_row(51, safetensors("\n\t{\"a\":" + good + "}", "abcd"));
  tensors_row(51, safetensors("\xEF\xBB\xBF{\"a\":" + good + "}", "abcd"));
  row(51, [] { CHECK(names_in(safetensors("{\"a\":" + good + "}  ", "abcd")) == std::vector<std::string>{"a"}); });
  tensors_row(52, safetensors("{\"a\":" + good + ",\"a\":" + good + "}", "abcd"));
  tensors_row(52, safetensors("{\"\\u0061\":" + good + ",\"a\":" + good + "}", "abcd"));
  tensors_row(52, safetensors(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", "abcd"));
  tensors_row(52, safetensors(R"({"__metadata__":{"n":"1","n":"2"}})"));
  tensors_row(53, safetensors(R"({"__metadata__":{"n":1}})"));
  tensors_row(53, safetensors(R"({"__metadata__":{"n":{"m":"x"}}})"));
  tensors_row(53, safetensors(R"({"__metadata__":"x"})"));
  tensors_row(53, safetensors("{\"__metadata__\":" + good + "}", "abcd"));
  tensors_row(54, safetensors("{\"\":" + good + "}", "abcd"));
  tensors_row(54, safetensors("{\"a\\u0000b\":" + good + "}", "abcd"));
  row(54, [] {
    // Names are texts, and nothing is named after them on a disk.
    CHECK(names_in(safetensors("{\"../x\":" + good + "}", "abcd")) == std::vector<std::string>{"../x"});
    const std::string large(1000000, 'n');
    CHECK(names_in(safetensors("{\"" + large + "\":" + good + "}", "abcd")) == std::vector<std::string>{large});
  });
  tensors_row(54, safetensors("{\"" + std::string(1000000, 'n') + "\":1}"));
}

TEST_CASE("bad inputs 55 to 60: tensors of a safetensors file") {
  tensors_row(55, of("F33", "[1]", "[0,4]"));
  tensors_row(55, of("f32", "[1]", "[0,4]"));
  tensors_row(55, safetensors("{\"a\":" + info("1", "[1]", "[0,4]") + "}", "abcd"));
  tensors_row(55, safetensors(R"({"a":{"dtype":"F32","shape":[1]}})", "abcd"));
  tensors_row(55, safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", "abcd"));
  tensors_row(55, safetensors(R"({"a":[]})"));
  tensors_row(56, of("F32", "[1]", "[4,0]"));
  tensors_row(56, of("F32", "[1]", "[-4,0]"));
  tensors_row(56, of("F32", "[1]", "[0,4e0]"));
  tensors_row(56, of("F32", "[1]", "[0,\"4\"]"));
  tensors_row(56, of("F32", "[1]", "[4]"));
  tensors_row(56, of("F32", "[1]", "[0,4,4]"));
  tensors_row(56, of("F32", "[1]", "4"));
  tensors_row(56, of("F32", "[1]", "[0,18446744073709551616]"));
  tensors_row(57, of("F32", "[1]", "[4,8]", "abcdabcd"));
  tensors_row(57, safetensors("{\"a\":" + good + ",\"b\":" + info("\"F32\"", "[1]", "[8,12]") + "}", "abcdabcdabcd"));
  std::string all;
  for (char c = 'a'; c < 'k'; ++c) {
    all += (c == 'a' ? "{\"" : ",\"") + std::string(1, c) + "\":" + info("\"F32\"", "[4]", "[0,16]");
  }
  tensors_row(58, safetensors(all + "}", std::string(16, 'd')));
  tensors_row(58, safetensors("{\"a\":" + good + ",\"b\":" + info("\"F32\"", "[1]", "[2,6]") + "}", "abcdab"));
  tensors_row(59, of("F32", "[1]", "[0,4]", "abcdx"));
  tensors_row(59, safetensors("{}", "x"));
  tensors_row(59, of("F32", "[1]", "[0,4]", "abc"));
  tensors_row(60, of("F32", "[2]", "[0,4]"));
  tensors_row(60, of("F64", "[]", "[0,4]"));
}

TEST_CASE("bad inputs 61 to 64: sizes of a safetensors file") {
  tensors_row(61, of("F32", "[4294967296,4294967296]", "[0,4]"));
  tensors_row(61, of("F32", "[4611686018427387905]", "[0,4]"));
  tensors_row(61, of("F32", "[0,18446744073709551615]", "[0,0]", ""));
  tensors_row(61, of("F32", "[18446744073709551615,0]", "[0,0]", ""));
  tensors_row(61, of("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]"));
  tensors_row(62, of("F32", "[-1,-1]", "[0,4]"));
  tensors_row(62, of("F32", "[1.5]", "[0,4]"));
  for (const std::string dtype : {"F4", "F6_E2M3", "F8_E5M2", "C64"}) {
    tensors_row(63, of(dtype, "[3]", "[0,2]", "ab"));
  }
  std::string many = "{";
  for (int i = 0; i < 1000000; ++i) many += "\"" + std::to_string(i) + "\":" + info("\"U8\"", "[0]", "[0,0]") + ",";
  tensors_row(64, safetensors(many + "\"last\":" + good + "}", "abcde"));
}

TEST_CASE("bad inputs 65 and 66: safetensors files that change") {
  // The format has no sum: a changed byte of elements is another number, a changed header an error or another name.
  const TemporaryFolder folder;
  checkpoint::save_safetensors(folder.path() / "t", {{"a", array({1.0F, 2.0F})}, {"b", array(std::int64_t{7})}});
  const std::string bytes = file_text(folder.path() / "t");
  row(65, [&] {
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string bad = bytes;
        bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
        std::size_t tensors = 2;
        try {
          tensors = data::read_safetensors(folder.write("bad", bad)).size();
        } catch (const DataError& error) {
          CHECK(std::string(error.what())
                    .starts_with("[read_safetensors] [restore] " + (folder.path() / "bad").string() + ": "));
        }
        CHECK(tensors == 2);
      }
    }
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      CHECK_THROWS_AS(data::read_safetensors(folder.write("bad", bytes.substr(0, size))), DataError);
    }
  });
  // In a checkpoint there is one.
  checkpoint::save(folder.path() / "saved", Tree::dict({{"a", Tree(array({1.0F, 2.0F}))}}), {});
  std::string arrays = file_text(folder.path() / "saved/arrays.safetensors");
  arrays.back() = static_cast<char>(arrays.back() ^ 1);
  folder.write("saved/arrays.safetensors", arrays);
  refused<CheckpointError>(65, [&] { checkpoint::restore(folder.path() / "saved"); });
  // What was mapped stays what it was when another file takes its name.
  row(66, [&] {
    const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }\n";
    const auto npy = [&](const std::string& body) {
      return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(header.size()) + std::string(1, '\0') + header + body;
    };
    const auto path = folder.write("x.npy", npy("abc"));
    const data::SourcePtr rows = data::npy_rows({{"x", path}});
    std::filesystem::rename(folder.write("other", npy("xyz")), path);
    CHECK(rows->row(1, data::RowKey(0, 0, 1)).at("x").bytes == std::vector<std::byte>{std::byte{'b'}});
  });
}

}  // namespace lockstep::tests
