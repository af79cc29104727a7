#include <cmath>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/training.h"

// A step partitioned over data and model axes means what it means on one device.

using namespace lockstep;

namespace {

Mesh data_by_model(std::int64_t data, std::int64_t model) {
  return Mesh({{"data", data}, {"model", model}}, devices(data * model > 1 ? "cpu:0-1" : "cpu:0"));
}

double norm_of_difference(const Tree& a, const Tree& b) {
  double difference = 0;
  double size = 0;
  const std::vector<Array> x = a.leaves();
  const std::vector<Array> y = b.leaves();
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Array u = convert(x[i], float64);
    difference += sum(square(u - convert(y[i], float64))).item<double>();
    size += sum(square(u)).item<double>();
  }
  return std::sqrt(difference / size);
}

/// Some numbers, far above what rounding makes of gradients that are zero.
optim::GradientTransformation adam() { return optim::adam(1e-3, 0.9, 0.999, 1e-6); }

struct Work {
  Model<Array, Array> model;
  Batch batch;
  LayoutMap layouts;
};

Array small_gpt(Scope& s, const Array& tokens) {
  return models::gpt(s, tokens, {.vocabulary = 64, .blocks = {.width = 32, .depth = 2, .heads = 4}});
}

Work gpt_work() {
  const Array tokens = random::randint(random::key(1), {8, 12}, 0, 64);
  return {Model<Array, Array>(small_gpt),
          {tokens, random::randint(random::key(2), {8, 12}, 0, 64), ones({8})},
          {{"tokens/embeddings", sharded("model", 0)},
           {".*/qkv/.*", sharded("model", -1)},
           {".*/out/kernel", sharded("model", 0)},
           {".*/dense_0/kernel", sharded("model", 1)},
           {".*/dense_0/bias", sharded("model")},
           {".*/dense_1/kernel", sharded("model", 0)},
           {"head/kernel", sharded("model", 1)}}};
}

Work mlp_work(DType dtype) {
  const auto network = [](Scope& s, const Array& x) {
    const Array h = relu(dense(s["dense_0"], x, {.units = 64}));
    return dense(s["head"], relu(dense(s["dense_1"], h, {.units = 32})), {.units = 4});
  };
  return {Model<Array, Array>(network),
          {random::normal(random::key(1), {16, 24}, dtype), random::randint(random::key(2), {16}, 0, 4), ones({16})},
          {{"dense_0/kernel", sharded("model", 1)},
           {"dense_0/bias", sharded("model")},
           {"dense_1/kernel", sharded("model", 0)}}};
}

/// Convolutions, BatchNorm and dropout.
Work cnn_work(std::int64_t rows = 8) {
  const auto network = [](Scope& s, const Array& x) {
    Array h = relu(batch_norm(s["norm"], conv2d(s["conv_0"], x, {.filters = 8, .kernel = {3, 3}, .use_bias = false})));
    h = max_pool2d(h, {2, 2});
    h = relu(conv2d(s["conv_1"], h, {.filters = 8, .kernel = {3, 3}}));
    return dense(s["head"], dropout(s["drop"], flatten(h), 0.25), {.units = 64});
  };
  return {
      Model<Array, Array>(network),
      {random::normal(random::key(1), {rows, 8, 8, 3}), random::randint(random::key(2), {rows}, 0, 64), ones({rows})},
      {{"conv_0/kernel", sharded("model", 3)}, {"norm/.*", sharded("model")}, {"conv_1/kernel", sharded("model", 2)}}};
}

/// Layers in a loop, attention by heads of projections of their own, a table cut by features.
Work looped_work() {
  const auto network = [](Scope& s, const Array& tokens) {
    const Array table = embedding(s["tokens"], tokens, {.vocabulary = 32, .features = 16});
    const Array x = reshard(table, sharded("data"));
    const auto block = [](const Scope& layer, const Array& h) {
      const Shape heads = {h.dim(0), h.dim(1), 4, 4};
      const auto projected = [&](const char* name) {
        return reshape(dense(layer[name], layer_norm(layer["norm"], h), {.units = 16}), heads.to_vector());
      };
      const Array seen =
          dot_product_attention(projected("query"), projected("key"), projected("value"), {.is_causal = true});
      return h + dense(layer["out"], reshape(seen, h.shape().to_vector()), {.units = 16});
    };
    return dense(s["head"], scan_layers(s["blocks"], 3, block, x), {.units = 32});
  };
  return {Model<Array, Array>(network),
          {random::randint(random::key(1), {8, 6}, 0, 32), random::randint(random::key(2), {8, 6}, 0, 32), ones({8})},
          {{"tokens/embeddings", sharded("model", 1)},
           {"blocks/(query|key|value)/(kernel|bias)", sharded("model", -1)},
           {"blocks/out/kernel", sharded("model", 1)},
           {"head/.*", sharded("model", -1)}}};
}

tests::Trained run_steps(const TrainStep& step, const Work& work, int steps) {
  return tests::train(step, tests::fresh_state(step, work.model, work.batch), steps, [&](int) { return work.batch; });
}

void check_meaning(const Work& work, const Mesh& mesh, int zero, double tolerance) {
  CAPTURE(zero);
  CAPTURE(mesh.size("data"));
  const StepLoss loss = tests::loss_of(work.model);
  const tests::Trained one =
      run_steps(data_parallel(loss, adam(), {.devices = devices("cpu:0"), .shards = 1}), work, 10);
  const TrainStep step =
      model_parallel(loss, adam(), {.mesh = mesh, .layouts = work.layouts, .zero = zero, .strict = true});
  const tests::Trained cut = run_steps(step, work, 10);
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    CHECK(std::abs(one.losses[i] - cut.losses[i]) <= tolerance * std::abs(one.losses[i]));
  }
  CHECK(norm_of_difference(one.state.trainable, gather(cut.state.trainable)) <= tolerance);
  if (one.state.non_trainable.size() > 0) {
    CHECK(norm_of_difference(one.state.non_trainable, gather(cut.state.non_trainable)) <= tolerance);
  }
}

}  // namespace

TEST_CASE("gpt over three meshes: 10 Adam steps agree with one device to 1e-5") {
  const Work work = gpt_work();
  for (const auto& [data, model] : {std::pair(2, 2), std::pair(4, 1), std::pair(1, 4)}) {
    check_meaning(work, data_by_model(data, model), 0, 1e-5);
  }
}

TEST_CASE("mlp over three meshes: 10 Adam steps agree to 1e-5, in float64 to 1e-11") {
  for (const auto& [data, model] : {std::pair(2, 2), std::pair(4, 1), std::pair(1, 4)}) {
    check_meaning(mlp_work(float32), data_by_model(data, model), 0, 1e-5);
    check_meaning(mlp_work(float64), data_by_model(data, model), 0, 1e-11);
  }
}

TEST_CASE("convolutions, BatchNorm and dropout over a mesh mean what they mean on one device") {
  for (const auto& [data, model] : {std::pair(2, 2), std::pair(4, 1), std::pair(1, 4)}) {
    check_meaning(cnn_work(), data_by_model(data, model), 0, 1e-5);
  }
}

TEST_CASE("layers in a loop, attention by heads, a table by features, a loss over a cut vocabulary") {
  for (const auto& [data, model] : {std::pair(2, 2), std::pair(4, 1), std::pair(1, 4)}) {
    check_meaning(looped_work(), data_by_model(data, model), 0, 1e-5);
  }
  check_meaning(looped_work(), data_by_model(2, 2), 3, 1e-5);
  const Work work = looped_work();
  const TrainStep step =
      model_parallel(tests::loss_of(work.model), adam(), {.mesh = data_by_model(2, 2), .layouts = work.layouts});
  const LayoutPlan plan = layout_plan(step, tests::fresh_state(step, work.model, work.batch), work.batch);
  for (const InsertedCollective& c : plan.collectives) {
    CHECK_MESSAGE((c.op == "psum" || c.op == "pmax" || c.layer.find("blocks") == std::string::npos), c.reason);
  }
}

TEST_CASE("ZeRO 1 to 3 mean what the step means without") {
  for (const int zero : {1, 2, 3}) {
    check_meaning(mlp_work(float64), data_by_model(2, 2), zero, 1e-11);
    check_meaning(gpt_work(), data_by_model(2, 2), zero, 1e-5);
  }
}

namespace {

void check_same_bits(const Work& work, const std::vector<int>& stages, Precision precision = Precision::float32) {
  const auto fingerprint_of = [&](const Mesh& mesh, int zero) {
    const TrainStep step = model_parallel(
        tests::loss_of(work.model), adam(),
        {.mesh = mesh, .layouts = work.layouts, .zero = zero, .contraction_blocks = 8, .precision = precision});
    return fingerprint(to_tree(run_steps(step, work, 5).state));
  };
  const std::string whole = fingerprint_of(data_by_model(1, 1), 0);
  for (const auto& [data, model] : {std::pair(8, 1), std::pair(4, 2), std::pair(2, 4), std::pair(1, 8)}) {
    for (const int zero : stages) {
      CAPTURE(data);
      CAPTURE(zero);
      CHECK(fingerprint_of(data_by_model(data, model), zero) == whole);
    }
  }
}

}  // namespace

TEST_CASE("with contraction_blocks one fingerprint holds for every layout and stage of zero: mlp") {
  check_same_bits(mlp_work(float32), {0, 1, 2, 3});
}

TEST_CASE("with contraction_blocks one fingerprint holds for every layout and stage of zero: gpt") {
  Work work = gpt_work();
  work.model = Model<Array, Array>([](Scope& s, const Array& tokens) {
    return models::gpt(s, tokens, {.vocabulary = 256, .blocks = {.width = 128, .depth = 1, .heads = 8}});
  });
  work.batch = {random::randint(random::key(1), {8, 64}, 0, 256), random::randint(random::key(2), {8, 64}, 0, 256), {}};
  check_same_bits(work, {0, 3});
}

TEST_CASE("with contraction_blocks one fingerprint holds for every layout and stage of zero: cnn") {
  check_same_bits(cnn_work(64), {0, 2});
}

TEST_CASE("with contraction_blocks small products have one fingerprint too, in other floats as well") {
  for (const DType dtype : {float64, bfloat16, float16}) check_same_bits(mlp_work(dtype), {0, 3});
  check_same_bits(cnn_work(8), {0, 3});
  check_same_bits(looped_work(), {0});
  check_same_bits(mlp_work(float32), {0}, Precision::bfloat16);
  Work work = gpt_work();
  work.model = Model<Array, Array>([](Scope& s, const Array& tokens) {
    return models::gpt(s, tokens, {.vocabulary = 64, .blocks = {.width = 32, .depth = 1, .heads = 8}});
  });
  check_same_bits(work, {0, 3});
}
