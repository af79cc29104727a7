#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/training.h"

// Layouts of model_parallel that cannot be honoured are errors that name variable, dimension and axis.

using namespace lockstep;
using tests::expect_error;

namespace {

Array one_layer(Scope& s, const Array& x) { return dense(s["in"], x, {.units = 8}); }

void run_with(const Model<Array, Array>& model, ModelParallelOptions options) {
  options.mesh = Mesh({{"data", 2}, {"model", 4}}, devices("cpu:0"));
  const Batch batch{ones({8, 4}), ones({8, 8}), {}};
  const TrainStep step = model_parallel(tests::loss_of(model), optim::adam(0.1), std::move(options));
  static_cast<void>(step(tests::fresh_state(step, model, batch), batch));
}

void run_with(ModelParallelOptions options) { run_with(Model<Array, Array>(one_layer), std::move(options)); }

}  // namespace

TEST_CASE("a layout that has an axis or a dimension twice is an error that names the variable") {
  expect_error<MeshError>(
      [] {
        run_with({.layouts = {{"in/kernel", Layout({{0, "model"}, {1, "model"}})}}});
      },
      "the layout of 'in/kernel', f32[4,8], has \"model\" twice");
  expect_error<MeshError>(
      [] {
        run_with({.layouts = {{"in/kernel", sharded({"data", "data"}, 1)}}});
      },
      "the layout of 'in/kernel', f32[4,8], has \"data\" twice");
  expect_error<MeshError>(
      [] {
        run_with({.layouts = {{"in/kernel", Layout({{1, "model"}, {-1, "data"}})}}});
      },
      "the layout of 'in/kernel', f32[4,8], names dimension 1 twice");
  expect_error<MeshError>(
      [] {
        run_with({.batch = DimensionAxes{"data", "data"}});
      },
      "what cuts the batch has \"data\" twice");
}

TEST_CASE("rules of slots that match nothing stand in the plan, and are an error where the options are strict") {
  expect_error<MeshError>(
      [] {
        run_with({.slots = {{"kernel", sharded("model")}}, .strict = true});
      },
      "the layout rule \"kernel\" of slots matches no variable");
  run_with({.slots = {{".*/kernel", sharded("model")}}, .strict = true});
  const Model<Array, Array> model(one_layer);
  const Batch batch{ones({8, 4}), ones({8, 8}), {}};
  const TrainStep step = model_parallel(
      tests::loss_of(model), optim::adam(0.1),
      {.mesh = Mesh({{"data", 2}, {"model", 4}}, devices("cpu:0")), .slots = {{"kernel", sharded("model")}}});
  CHECK(layout_plan(step, tests::fresh_state(step, model, batch), batch).unused_rules ==
        std::vector<std::string>{"kernel"});
}

TEST_CASE("one layout for all slots leaves scalars whole") {
  const Model<Array, Array> model([](Scope& s, const Array& x) {
    return dense(s["in"], prelu(s["slope"], x, {.per_channel = false}), {.units = 8});
  });
  run_with(model, {.slots = sharded("data")});
}

TEST_CASE("a reshard that does not fit the mesh is an error where the program asks for it") {
  const auto asking = [](const Layout& layout) {
    return Model<Array, Array>([layout](Scope& s, const Array& x) {
      const Array h = dense(s["narrow"], x, {.units = 2});
      return dense(s["in"], reshard(h, layout), {.units = 8});
    });
  };
  expect_error<ShapeError>([&] { run_with(asking(sharded("model", 1)), {}); }, "layout_error_test.cpp",
                           "f32[8,2] is to be cut in dimension 1 along \"model\"",
                           "extent 2 is no multiple of 4 shards");
  expect_error<MeshError>([&] { run_with(asking(sharded("tensor")), {}); }, "layout_error_test.cpp", "along \"tensor\"",
                          "one of \"data\", \"model\"");
}
