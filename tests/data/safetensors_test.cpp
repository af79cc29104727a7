#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/checkpoint.h>
#include <lockstep/data.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "tests/support/expect_error.h"
#include "tests/support/file_bytes.h"
#include "tests/support/temporary_folder.h"

using namespace lockstep;
using tests::little_endian;
using tests::safetensors;
using tests::TemporaryFolder;

namespace {

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

}  // namespace

TEST_CASE("read_safetensors gives tensors by name") {
  const TemporaryFolder folder;
  checkpoint::save_safetensors(folder.path() / "t", {{"a", array({1.0F, 2.0F})}, {"b", array(std::int64_t{7})}});
  const auto tables = data::read_safetensors(folder.path() / "t");
  REQUIRE(tables.size() == 2);
  CHECK(data::elements<float>(tables.at("a"))[1] == 2);
  CHECK(tables.at("b").type == ArrayType{int64, {}, {}});
}

TEST_CASE("damaged safetensors files are data errors that name the file") {
  const std::string four(4, 'd');
  const std::string good = tensor("F32", "[1]", "[0,4]");
  std::string all;
  for (int i = 0; i < 10; ++i)
    all += (i == 0 ? "{\"" : ",\"") + std::to_string(i) + "\":" + tensor("F32", "[4]", "[0,16]");
  const std::vector<std::string> table = {
      "",
      little_endian(2).substr(0, 7),
      little_endian(0),
      little_endian(100000000),
      little_endian(100000001),
      little_endian(~std::uint64_t{0}),
      little_endian(std::uint64_t{1} << 63),
      little_endian(~std::uint64_t{0} - 7) + "{}",
      little_endian(50) + "{}",
      safetensors("{\"a\xFF\":" + good + "}", four),
      safetensors("[]"),
      safetensors("{}x"),
      safetensors(std::string(100000, '[')),
      safetensors("{\"a\":" + good + ",\"a\":" + good + "}", four),
      safetensors(R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", four),
      safetensors("{\"a\":" + tensor("F33", "[1]", "[0,4]") + "}", four),
      safetensors("{\"a\":" + tensor("f32", "[1]", "[0,4]") + "}", four),
      safetensors(R"({"a":{"dtype":"F32","shape":[1]}})", four),
      safetensors(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"more":1}})", four),
      safetensors("{\"a\":" + tensor("F32", "[1]", "[4,0]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[1]", "[-4,0]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[1]", "[0,4e0]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[1]", "[0,\"4\"]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[1]", "[4]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[1]", "[0,4,4]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[1]", "[4,8]") + "}", four + four),
      safetensors("{\"a\":" + good + ",\"b\":" + tensor("F32", "[1]", "[8,12]") + "}", four + four + four),
      safetensors(all + "}", std::string(16, 'd')),
      safetensors("{\"a\":" + good + "}", four + "x"),
      safetensors("{\"a\":" + good + "}", "ddd"),
      safetensors("{\"a\":" + tensor("F32", "[2]", "[0,4]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[4294967296,4294967296]", "[0,4]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[4611686018427387905]", "[0,4]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[-1,-1]", "[0,4]") + "}", four),
      safetensors("{\"a\":" + tensor("F32", "[1.5]", "[0,4]") + "}", four),
  };
  for (std::size_t i = 0; i < table.size(); ++i) {
    CAPTURE(i);
    const TemporaryFolder folder;
    const auto path = folder.write("bad", table[i]);
    tests::expect_error<DataError>([&] { data::read_safetensors(path); }, "[read_safetensors] ", path.string());
  }
  tests::expect_error<DataError>([] { data::read_safetensors("/dev/zero"); }, "is no regular file");
  tests::expect_error<DataError>([] { data::read_safetensors("/nowhere/t"); }, "no such file");
}
