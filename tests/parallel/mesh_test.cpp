#include <algorithm>
#include <bit>
#include <thread>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/parallel.h>

#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::expect_error;

TEST_CASE("a mesh knows its shards and axes") {
  const Mesh mesh({{"batch", 4}, {"model", 2}}, devices("cpu:0-1"));
  CHECK(mesh.shards() == 8);
  CHECK(mesh.size("batch") == 4);
  CHECK(mesh.size("model") == 2);
  CHECK(mesh.devices().size() == 2);
  expect_error<MeshError>([&] { mesh.size("rows"); }, "\"rows\"", "batch=4, model=2");
}

TEST_CASE("a mesh that cannot be is refused") {
  struct Row {
    std::vector<MeshAxis> axes;
    std::vector<Device> devices;
    const char* text;
  };
  const std::vector<Device> one = {Device{}};
  const std::vector<Row> rows = {
      {{}, one, "no axes"},
      {{{"", 2}}, one, "axis 0 has an empty name"},
      {{{"data,model", 2}}, one, "axis \"data,model\" has a comma"},
      {{{"batch", 2}, {"batch", 2}}, one, "\"batch\" is named twice"},
      {{{"batch", 3}}, one, "size 3"},
      {{{"batch", 0}}, one, "size 0"},
      {{{"batch", -2}}, one, "size -2"},
      {{{"batch", 2}}, {}, "no devices"},
      {{{"batch", 4}}, {Device{}, Device{}}, "cpu:0 is named twice"},
      {{{"batch", 2}}, devices("cpu:0-3"), "4 devices do not divide the 2 shards of batch=2"},
      {{{"batch", 8}}, devices("cpu:0-2"), "3 devices do not divide the 8 shards"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.text);
    expect_error<MeshError>([&] { Mesh(row.axes, row.devices); }, row.text);
  }
}

TEST_CASE("the default mesh of a batch") {
  struct Row {
    std::int64_t shards;
    std::int64_t batch;
    std::int64_t expected;
  };
  for (const Row& row : {Row{0, 8, 8}, Row{0, 1000, 8}, Row{0, 7, 4}, Row{0, 1, 1}, Row{2, 1000, 2}, Row{16, 4, 16}}) {
    CAPTURE(row.shards);
    CAPTURE(row.batch);
    const Mesh mesh = data_mesh(row.shards, {}, row.batch);
    CHECK(mesh.axes() == std::vector<MeshAxis>{{"batch", row.expected}});
    const auto cores = static_cast<std::int64_t>(std::bit_floor(std::max(1U, std::thread::hardware_concurrency())));
    CHECK(static_cast<std::int64_t>(mesh.devices().size()) == std::min(cores, row.expected));
  }
  CHECK(data_mesh(4, devices("cpu:0-3")).devices().size() == 4);
  expect_error<MeshError>([] { data_mesh(3, {}); }, "size 3", "powers of two");
  expect_error<MeshError>([] { data_mesh(-1, {}); }, "got -1");
  expect_error<MeshError>([] { data_mesh(0, {}, 0); }, "at least one row, got 0");
}
