#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/training.h"

// Attention whose heads are cut: a joint projection is gathered, projections apart are not.

using namespace lockstep;

namespace {

const Mesh attention_mesh({{"data", 2}, {"model", 2}}, devices("cpu:0-1"));

Model<Array, Array> gpt_of(std::int64_t width, bool joint) {
  return Model<Array, Array>([=](const Scope& s, const Array& tokens) {
    return models::gpt(
        s, tokens, {.vocabulary = 32, .blocks = {.width = width, .depth = 2, .heads = 4, .joint_projection = joint}});
  });
}

const LayoutMap attention_layouts = {{".*/(qkv|query|key|value|dense_0)/kernel", sharded("model", 1)},
                                     {".*/(qkv|query|key|value|dense_0)/bias", sharded("model")},
                                     {".*/(attention/out|dense_1)/kernel", sharded("model")}};

Batch tokens_of(std::int64_t rows, std::int64_t length) {
  return {random::randint(random::key(1), {rows, length}, 0, 32),
          random::randint(random::key(2), {rows, length}, 0, 32), ones({rows})};
}

LayoutPlan plan_of_attention(bool joint, int zero, std::int64_t width) {
  const Model<Array, Array> model = gpt_of(width, joint);
  const Batch batch = tokens_of(8, 16);
  const TrainStep step = model_parallel(tests::loss_of(model), optim::adam(0.01),
                                        {.mesh = attention_mesh, .layouts = attention_layouts, .zero = zero});
  return layout_plan(step, tests::fresh_state(step, model, batch), batch);
}

/// Bytes that are moved in attention layers, beside the sums of rows that their results take.
std::int64_t gathered_bytes(const LayoutPlan& plan) {
  std::int64_t bytes = 0;
  for (const InsertedCollective& c : plan.collectives) {
    const bool is_of_attention = c.layer.find("attention") != std::string::npos && c.axes.contains("model");
    if (is_of_attention && c.op != "psum") bytes += c.bytes * c.times;
  }
  return bytes;
}

/// The kernels and biases of projections apart, of those of a joint one.
Tree apart(const Tree& joint) {
  Tree weights = joint;
  const std::string end = "/qkv/kernel";
  for (const std::string& path : joint.paths()) {
    if (!path.ends_with(end)) continue;
    const std::string layer = path.substr(0, path.size() - end.size());
    const std::vector<Array> kernels = split(joint.at(path).array(), 3, 1);
    const std::vector<Array> biases = split(joint.at(layer + "/qkv/bias").array(), 3, 0);
    Tree attention = Tree::dict({{"out", joint.at(layer + "/out")}});
    for (const auto& [name, i] : {std::pair("query", 0U), {"key", 1U}, {"value", 2U}}) {
      attention = attention.with(name, Tree::dict({{"bias", Tree(biases[i])}, {"kernel", Tree(kernels[i])}}));
    }
    weights = weights.with(layer, attention);
  }
  return weights;
}

}  // namespace

TEST_CASE("projections apart are the joint one's function") {
  const Batch batch = tokens_of(4, 8);
  const auto [joint, rest] = gpt_of(32, true).init(random::key(3), batch.x);
  const Tree three = apart(joint);
  CHECK(three.structure() == gpt_of(32, false).init(random::key(3), batch.x).first.structure());
  const Array a = gpt_of(32, true).stateless_call(joint, rest, batch.x, false).first;
  const Array b = gpt_of(32, false).stateless_call(three, rest, batch.x, false).first;
  CHECK(allclose(a, b, 1e-5, 1e-5).item<bool>());
}

TEST_CASE("heads cut along an axis: a joint projection moves its activations, projections apart move nothing") {
  for (const int zero : {0, 1, 2, 3}) {
    for (const std::int64_t width : {32, 64}) {
      CAPTURE(zero);
      CAPTURE(width);
      const LayoutPlan joint = plan_of_attention(true, zero, width), three = plan_of_attention(false, zero, width);
      CHECK(gathered_bytes(three) == 0);
      // Of 2 layers, forwards and backwards, half of f32[4, 16, 3 width].
      CHECK(gathered_bytes(joint) >= 2 * 2 * 4 * 16 * 3 * width * 4 / 2);
      CHECK(three.bytes < joint.bytes);
    }
  }
}

TEST_CASE("a gpt with projections apart, cut by heads, trains as on one device") {
  const Model<Array, Array> model = gpt_of(32, false);
  const Batch batch = tokens_of(8, 8);
  const auto trained = [&](const TrainStep& step) {
    TrainState state = tests::fresh_state(step, model, batch);
    for (int i = 0; i < 3; ++i) state = step(std::move(state), batch).first;
    return gather(state.trainable);
  };
  const auto adam = optim::adam(1e-3, 0.9, 0.999, 1e-6);
  const Tree one = trained(data_parallel(tests::loss_of(model), adam, {.devices = devices("cpu:0"), .shards = 1}));
  for (const std::int64_t microbatches : {1, 2}) {
    const Tree cut = trained(model_parallel(tests::loss_of(model), adam,
                                            {.mesh = attention_mesh,
                                             .layouts = attention_layouts,
                                             .zero = 3,
                                             .strict = true,
                                             .microbatches = microbatches}));
    const std::vector<Array> x = one.leaves(), y = cut.leaves();
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i) CHECK(allclose(x[i], y[i], 1e-3, 1e-4).item<bool>());
  }
}
