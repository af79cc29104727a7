#include "engine/parallel/layout.h"

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/support/expect_error.h"

using namespace lockstep;
using tests::expect_error;

namespace {

using Cuts = std::vector<std::string>;

const Mesh& grid() {
  static const Mesh mesh({{"batch", 4}, {"model", 2}}, {Device{}});
  return mesh;
}

}  // namespace

TEST_CASE("a layout says per dimension what cuts it") {
  struct Row {
    Layout layout;
    int rank;
    Cuts expected;
  };
  const std::vector<Row> rows = {
      {replicated, 2, {"", ""}},
      {sharded("batch"), 2, {"batch", ""}},
      {sharded("model", 1), 2, {"", "model"}},
      {sharded("model", -1), 3, {"", "", "model"}},
      {Layout({{0, "batch"}, {1, "model"}}), 2, {"batch", "model"}},
      {sharded("batch"), 0, {}},
      {sharded({"batch", "model"}), 2, {"batch,model", ""}},
      {sharded({"model", "batch"}, -1), 2, {"", "model,batch"}},
      {Layout::by_dimension({"model", {}, {"batch"}}), 3, {"model", "", "batch"}},
      {Layout::by_dimension({{}, {"batch", "model"}}), 2, {"", "batch,model"}},
  };
  for (const Row& row : rows) CHECK(parallel::cuts_per_dimension(row.layout, grid(), row.rank, "x") == row.expected);
}

TEST_CASE("a layout that does not fit is refused") {
  expect_error<MeshError>([] { parallel::cuts_per_dimension(sharded("rows"), grid(), 2, "x"); }, "\"rows\"",
                          "batch=4, model=2");
  expect_error<ShapeError>([] { parallel::cuts_per_dimension(sharded("batch", 2), grid(), 2, "argument 0/w"); },
                           "argument 0/w", "dimension 2", "2 dimensions");
  expect_error<MeshError>(
      [] {
        parallel::cuts_per_dimension(Layout({{0, "batch"}, {1, "batch"}}), grid(), 2, "argument 0");
      },
      "argument 0", "\"batch\"", "twice");
  expect_error<MeshError>(
      [] {
        parallel::cuts_per_dimension(Layout({{0, "batch"}, {-2, "model"}}), grid(), 2, "argument 0");
      },
      "argument 0", "twice");
  expect_error<MeshError>(
      [] {
        parallel::cuts_per_dimension(sharded({"batch", "batch"}), grid(), 2, "argument 0");
      },
      "argument 0", "dimension 0 along batch,batch", "axis \"batch\"");
  expect_error<MeshError>(
      [] {
        parallel::cuts_per_dimension(Layout({{0, {"model", "batch"}}, {1, "model"}}), grid(), 2, "argument 0");
      },
      "argument 0", "\"model\"", "dimension 1");
  expect_error<ShapeError>(
      [] {
        parallel::cuts_per_dimension(sharded({"batch", "model"}, 2), grid(), 2, "x");
      },
      "dimension 2", "\"batch\", \"model\"", "2 dimensions");
}

TEST_CASE("a dimension that is cut twice is refused where the layout is written") {
  expect_error<MeshError>([] { Layout({{0, "data"}, {0, "model"}}); }, "dimension 0", "\"data\"", "\"model\"");
  CHECK(Layout({{0, "data"}, {1, "model"}}) ==
        Layout(std::map<std::int64_t, DimensionAxes>{{0, "data"}, {1, "model"}}));
  CHECK(Layout({}) == replicated);
  CHECK(sharded({}, 1) == replicated);
  CHECK(Layout({{1, {"data", "model"}}}) == sharded({"data", "model"}, 1));
  CHECK(sharded({"data", "model"}) != sharded({"model", "data"}));
  CHECK(to_string(replicated) == "replicated");
  CHECK(to_string(Layout({{0, {"data", "model"}}, {2, "expert"}})) ==
        "dimension 0 along data,model, dimension 2 along expert");
}

TEST_CASE("a shard's block") {
  CHECK(parallel::local_shape({8, 6}, {"batch", "model"}, grid(), "x") == Shape{2, 3});
  CHECK(parallel::local_shape({8, 6}, {"", ""}, grid(), "x") == Shape{8, 6});
  CHECK(parallel::local_shape({0, 6}, {"batch", ""}, grid(), "x") == Shape{0, 6});
  CHECK(parallel::cutting_axes({"", "model", "batch"}) == AxisSet{"batch", "model"});
  CHECK(parallel::local_shape({16, 6}, {"model,batch", ""}, grid(), "x") == Shape{2, 6});
  CHECK(parallel::cutting_axes({"", "model,batch"}) == AxisSet{"batch", "model"});
  expect_error<ShapeError>(
      [] {
        parallel::local_shape({12, 6}, {"batch,model", ""}, grid(), "argument 1/x");
      },
      "argument 1/x", "extent 12", "8 shards", "\"batch\", \"model\"", "pad it to 16");
  expect_error<ShapeError>(
      [] {
        parallel::local_shape({33, 6}, {"batch", ""}, grid(), "argument 1/x");
      },
      "argument 1/x", "extent 33", "4 shards", "pad it to 36");
}
