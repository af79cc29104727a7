#include <algorithm>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/training.h"
#include "tests/train/megatron.h"

// What a user of model_parallel says of layouts, and what is said back.

using namespace lockstep;
using tests::expect_error;
using tests::megatron;

namespace {

Mesh square_grid() { return Mesh({{"data", 2}, {"model", 2}}, devices("cpu:0")); }

constexpr int layers_line = __LINE__ + 2;
Array two_layers(Scope& s, const Array& x) {
  return dense(s["out"], relu(dense(s["in"], x, {.units = 8})), {.units = 1});
}

const Model<Array, Array> two_layer_model(two_layers);

TrainStep layout_step(ModelParallelOptions options) {
  if (options.mesh.axes().empty()) options.mesh = square_grid();
  return model_parallel(tests::loss_of(two_layer_model), optim::adam(0.01), std::move(options));
}

Batch rows_of(std::int64_t rows) { return tests::regression_batch(rows, 6, float32); }

TrainState fresh_layout_state(const TrainStep& step) { return tests::fresh_state(step, two_layer_model, rows_of(4)); }

LayoutPlan plan_of_step(const TrainStep& step, std::int64_t rows = 4) {
  return layout_plan(step, fresh_layout_state(step), rows_of(rows));
}

}  // namespace

TEST_CASE("an axis that the mesh has not is an error that lists those it has") {
  expect_error<MeshError>(
      [] {
        layout_step({.layouts = {{"in/kernel", sharded("tensor", 1)}}});
      },
      "the rule \"in/kernel\" cuts dimension 1 along \"tensor\"", "one of \"data\", \"model\"");
  expect_error<MeshError>([] { layout_step({.batch = "rows"}); }, "the batch cuts dimension 0 along \"rows\"");
  expect_error<MeshError>(
      [] {
        layout_step({.mesh = Mesh({{"model", 2}}, devices("cpu:0"))});
      },
      "no axis \"data\" or \"batch\"", "{.batch = \"...\"}");
  expect_error<MeshError>([] { model_parallel(tests::loss_of(two_layer_model), optim::sgd(0.1), {}); },
                          "no mesh given");
  expect_error<ValueError>([] { layout_step({.zero = 4}); }, "zero is 4; expected a stage from 0 to 3");
  expect_error<ValueError>([] { plan_of_step(layout_step({.contraction_blocks = 3})); }, "contraction_blocks is 3");
}

TEST_CASE("rules that do not fit a variable are errors when its state is made") {
  expect_error<MeshError>(
      [] {
        fresh_layout_state(layout_step({.layouts = {{"in/bias", sharded("model", 1)}}}));
      },
      "the layout of 'in/bias', f32[8], cuts dimension 1 along \"model\"", "has 1 dimensions");
  expect_error<MeshError>(
      [] {
        fresh_layout_state(layout_step({.layouts = {{"out/kernel", sharded("model", 1)}}}));
      },
      "the layout of 'out/kernel', f32[8,1], cuts dimension 1 along \"model\"",
      "its extent 1 is no multiple of 2 shards");
  expect_error<MeshError>(
      [] {
        fresh_layout_state(layout_step({.layouts = {{".*kernel", replicated}, {"in.*", replicated}}}));
      },
      "\"in/kernel\" matches multiple layouts");
}

TEST_CASE("rules that match nothing stand in the plan, and are an error where the options are strict") {
  const LayoutMap layouts = {{"dense", sharded("model")}, {"in/bias", sharded("model")}};
  const LayoutPlan plan = plan_of_step(layout_step({.layouts = layouts}));
  CHECK(plan.unused_rules == std::vector<std::string>{"dense"});
  CHECK(tests::contains(plan.text, "\"dense\" matches no variable"));
  expect_error<MeshError>([&] { fresh_layout_state(layout_step({.layouts = layouts, .strict = true})); },
                          "the layout rule \"dense\" matches no variable", "'in/bias', 'in/kernel'");
}

TEST_CASE("a layout that a variable declares goes before the rules") {
  const Model<Array, Array> declaring([](Scope& s, const Array& x) {
    const Array w = s.trainable("w", {.shape = {6, 8}, .layout = sharded("model", 0)});
    return sum(matmul(x, w), Axes{1}, true);
  });
  const auto plan_with = [&](const LayoutMap& layouts) {
    const TrainStep step =
        model_parallel(tests::loss_of(declaring), optim::sgd(0.1), {.mesh = square_grid(), .layouts = layouts});
    return layout_plan(step, tests::fresh_state(step, declaring, rows_of(4)), rows_of(4)).text;
  };
  CHECK(plan_with({}) == plan_with({{"w", sharded("model", 1)}}));
  // init knows the rules alone; the first step sees what the loss's model declares.
  const TrainStep step = model_parallel(tests::loss_of(declaring), optim::adam(0.1), {.mesh = square_grid()});
  TrainState state = tests::fresh_state(step, declaring, rows_of(4));
  CHECK_FALSE(is_cut(state.trainable.at("w").array()));
  for (int i = 0; i < 3; ++i) {
    state = step(std::move(state), rows_of(4)).first;
    CHECK(layout_of(state.trainable.at("w").array()) == sharded("model", 0));
  }
  CHECK(step.traces() == 2);
}

TEST_CASE("each gradient is reduced once, into blocks from stage 2 of zero on") {
  const auto reductions = [](const TrainStep& step) {
    int count = 0;
    for (const InsertedCollective& c : plan_of_step(step).collectives) {
      const bool is_reduction = c.op == "psum" || c.op == "psum_scatter";
      count += is_reduction && c.axes.contains("data") && c.to != "[]" ? 1 : 0;
    }
    return count;
  };
  for (const int zero : {0, 1, 2, 3}) {
    CAPTURE(zero);
    const TrainStep step = layout_step({.layouts = megatron, .zero = zero});
    CHECK(reductions(step) == 4);                                           // of two kernels and two biases
    CHECK(plan_of_step(step).count("psum_scatter") == (zero < 2 ? 0 : 3));  // one bias has a single element
    const TrainState state = fresh_layout_state(step);
    std::int64_t planned = 0;
    for (const CollectiveCost& cost : step.program(state, rows_of(4)).plan().collective_costs) planned += cost.times;
    const std::int64_t before = collectives_executed();
    static_cast<void>(step(state, rows_of(4)));
    CHECK(collectives_executed() - before == planned);
  }
}

TEST_CASE("a column and a row layer take one psum forward") {
  const LayoutPlan plan = plan_of_step(layout_step({.layouts = megatron}));
  int forward = 0;
  for (const InsertedCollective& c : plan.collectives) forward += c.layer == "out" && !c.backward ? 1 : 0;
  CHECK(forward == 1);
  CHECK(plan.count("all_gather_invariant") == 0);
  CHECK(plan.count("all_to_all") == 0);
}

TEST_CASE("what is moved says in which line of the program it is read, forwards and backwards") {
  const auto line_of = [](int line) { return "model_parallel_layout_test.cpp:" + std::to_string(line); };
  const LayoutPlan plan = plan_of_step(layout_step({.layouts = megatron}));
  CAPTURE(plan.text);
  const auto has = [&](const LayoutPlan& of, const std::string& op, const std::string& place, bool backward) {
    return std::ranges::any_of(of.collectives, [&](const InsertedCollective& c) {
      return c.op == op && c.place == place && c.backward == backward;
    });
  };
  CHECK(has(plan, "psum", line_of(layers_line), false));
  CHECK(has(plan, "psum", line_of(layers_line), true));
  CHECK(plan.text.find(" in 'out' at " + line_of(layers_line)) != std::string::npos);

  int summed = 0;
  const auto f = [&](const Array& w, const Array& x) {
    const Array h = matmul(x, w);
    summed = __LINE__ + 1;
    return tanh(h) + 1.0;
  };
  const PartitionOptions options{.mesh = square_grid(), .in = {sharded("model"), sharded("model", 1)}};
  const LayoutPlan of_f = layout_plan(f, options, ones({4, 4}), ones({2, 4}));
  CAPTURE(of_f.text);
  CHECK(has(of_f, "psum", line_of(summed), false));
  PartitionOptions strict = options;
  strict.is_explicit = true;
  expect_error<MeshError>(
      [&] {
        static_cast<void>(partitioned(f, strict)(ones({4, 4}), ones({2, 4})));
      },
      "tanh at " + line_of(summed) + " needs what dot_general made");
}

TEST_CASE("explicit layouts: the row layer's sum is an error until a reshard asks for it") {
  const TrainStep step = layout_step({.layouts = megatron, .is_explicit = true});
  expect_error<MeshError>([&] { plan_of_step(step); }, "in layer 'out'", "psum along \"model\"",
                          "write reshard(x, layout)");
  const Model<Array, Array> asking([](Scope& s, const Array& x) {
    const Array h = relu(dense(s["in"], x, {.units = 8}));
    const Array y = reshard(dense(s["out"], h, {.units = 1, .use_bias = false}), sharded("data"));
    return y;
  });
  for (const std::int64_t blocks : {0, 4}) {
    for (const int parts : {1, 2}) {
      CAPTURE(blocks);
      CAPTURE(parts);
      const TrainStep asked = model_parallel(tests::loss_of(asking), optim::adam(0.01),
                                             {.mesh = square_grid(),
                                              .layouts = megatron,
                                              .is_explicit = true,
                                              .contraction_blocks = blocks,
                                              .microbatches = parts});
      CHECK(layout_plan(asked, tests::fresh_state(asked, asking, rows_of(4)), rows_of(4)).count("psum") > 0);
    }
  }
}

TEST_CASE("rows that the batch's axes do not divide are padded; a state of whole arrays is as good as any") {
  const TrainStep step = layout_step({.layouts = megatron});
  const TrainStep one =
      data_parallel(tests::loss_of(two_layer_model), optim::adam(0.01), {.devices = devices("cpu:0"), .shards = 1});
  TrainState cut = fresh_layout_state(step);
  TrainState whole = fresh_layout_state(one);
  for (int i = 0; i < 3; ++i) {
    Logs logs;
    Logs expected;
    std::tie(cut, logs) = step(std::move(cut), rows_of(33));
    std::tie(whole, expected) = one(std::move(whole), rows_of(33));
    CHECK(logs.at("loss").item<double>() == doctest::Approx(expected.at("loss").item<double>()).epsilon(1e-6));
    cut.trainable = cut.trainable.with("in/kernel", Tree(whole.trainable.at("in/kernel").array()));
  }
}

TEST_CASE("a step of data_parallel has no layout plan") {
  const TrainStep step = data_parallel(tests::loss_of(two_layer_model), optim::sgd(0.1), {.shards = 2});
  expect_error<ValueError>([&] { layout_plan(step, fresh_layout_state(step), rows_of(4)); }, "is one of data_parallel");
}

TEST_CASE("partitioned: any function on whole arrays, with what it takes in a plan") {
  const auto f = [](const Array& w, const Array& x) { return tanh(matmul(x, w)); };
  const PartitionOptions options{.mesh = square_grid(), .in = {sharded("model"), Layout({{0, "data"}, {1, "model"}})}};
  const Array w = random::normal(random::key(1), {4, 6});
  const Array x = random::normal(random::key(2), {8, 4});
  CHECK(allclose(partitioned(f, options)(w, x), f(w, x), 1e-6).item<bool>());
  const LayoutPlan plan = layout_plan(f, options, w, x);
  CHECK(plan.count("psum") == 1);
  CHECK(plan.bytes == 4 * 6 * 4);
  CHECK(tests::contains(plan.text, "psum along model of 96 bytes: dot_general -> psum for tanh"));
  CHECK(allclose(jit(partitioned(f, options))(w, x), f(w, x), 1e-6).item<bool>());
  const auto slope = grad([&](const Array& v) { return sum(partitioned(f, options)(v, x)); })(w);
  CHECK(allclose(slope, grad([&](const Array& v) { return sum(f(v, x)); })(w), 1e-5).item<bool>());
  CHECK(reshard(x, sharded("data")).to_vector<float>() == x.to_vector<float>());
}

namespace {

/// A loop in a loop, so deep.
Array nested(int depth, const Array& w, const Array& x) {
  if (depth == 0) return tanh(matmul(x, w));
  const auto body = [&](const Array& carry, const Array&) {
    return std::pair(nested(depth - 1, w, carry), array(0.0F));
  };
  return scan(body, x, zeros({2})).first;
}

}  // namespace

TEST_CASE("partitioned: a nest of loops takes no power of its depth") {
  const auto f = [](const Array& w, const Array& x) { return nested(8, w, x); };
  const PartitionOptions options{.mesh = square_grid(), .in = {sharded("model", 1), sharded("data")}};
  const Array w = random::normal(random::key(1), {4, 4}), x = random::normal(random::key(2), {8, 4});
  const std::clock_t before = std::clock();
  const LayoutPlan plan = layout_plan(f, options, w, x);
  CHECK(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC < 5);  // 10^8 analyses otherwise
  CHECK_FALSE(plan.collectives.empty());
}

TEST_CASE("partitioned: what does not fit is named") {
  const auto f = [](const Array& x) { return x + 1.0; };
  const Array x = zeros({3, 4});
  expect_error<ShapeError>([&] { partitioned(f, {.mesh = square_grid(), .in = {sharded("data")}})(x); },
                           "partitioned: argument 0: dimension 0 of [3,4] has extent 3");
  expect_error<MeshError>([&] { partitioned(f, {.mesh = square_grid(), .in = {sharded("rows")}})(x); },
                          "no axis \"rows\"");
  expect_error<MeshError>([&] { partitioned(f, {.mesh = square_grid(), .in = {}})(x); },
                          "0 layouts in `in` for 1 arguments");
  expect_error<MeshError>([&] { partitioned(f, {.in = {replicated}})(x); }, "no mesh given");
  const auto outer =
      pmap([&](const Array& v) { return partitioned(f, {.mesh = square_grid(), .in = {replicated}})(v); },
           {.mesh = square_grid(), .in = {replicated}, .out = {replicated}});
  expect_error<MeshError>([&] { outer(x); }, "called inside a map over data,model");
  const auto mapped = pmap(f, {.mesh = square_grid(), .in = {sharded("data", 1)}, .out = {sharded("data", 1)}});
  expect_error<MeshError>([&] { partitioned(mapped, {.mesh = square_grid(), .in = {replicated}})(x); },
                          "has a pmap over 2 replicas inside");
  const auto asking = [](const Array& v) { return reshard(v, sharded("rows")); };
  expect_error<MeshError>([&] { partitioned(asking, {.mesh = square_grid(), .in = {replicated}})(x); }, "rows");
  expect_error<ShapeError>([&] { reshard(x, sharded("data", 2)); }, "reshard", "2");
  const auto pair = [](const Array& v) { return std::pair(v, v); };
  expect_error<MeshError>(
      [&] {
        partitioned(pair, {.mesh = square_grid(), .in = {replicated}, .out = {replicated, replicated, replicated}})(x);
      },
      "3 layouts in `out`");
}
