#include "tests/support/drawn_steps.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

// Steps of drawn models, layouts, meshes, stages of zero, optimizers and options mean what they mean on one device; with
// contraction_blocks their bits are those of one device.

using namespace lockstep;
using tests::DrawnStep;

namespace {

/// Relative to the size of the leaf, of small ones to 1e-3.
double difference_of(const Array& a, const Array& b) {
  if (!is_inexact(a.dtype())) return fingerprint(Tree(a)) == fingerprint(Tree(b)) ? 0 : 1;
  const Array x = convert(a, float64), y = convert(b, float64);
  return std::sqrt(sum(square(x - y)).item<double>()) / (std::sqrt(sum(square(x)).item<double>()) + 1e-3);
}

void check_drawn_near(const DrawnStep& drawn) {
  const LossFunction loss = tests::loss_of(drawn);
  DataParallelOptions single{.devices = devices("cpu:0"), .shards = 1};
  single.loss_scale = drawn.options.loss_scale;
  const tests::Trained one = tests::trained_on(data_parallel(loss, *drawn.optimizer, single), drawn, 3);
  const tests::Trained cut = tests::trained_on(model_parallel(loss, *drawn.optimizer, drawn.options), drawn, 3);
  // Optimizers by signs and roots make much of the rounding of gradients that are zero.
  const double tolerance = (drawn.dtype == float64 ? 1e-9 : 3e-4) * (drawn.is_signed ? 100 : 1);
  for (std::size_t i = 0; i < one.losses.size(); ++i) {
    CHECK(std::abs(one.losses[i] - cut.losses[i]) <= tolerance * (std::abs(one.losses[i]) + 1e-3));
  }
  const Tree a = to_tree(one.state), b = gather(to_tree(cut.state));
  const std::vector<std::string> paths = a.paths();
  const std::vector<Array> x = a.leaves(), y = b.leaves();
  REQUIRE(x.size() == y.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    CAPTURE(paths[i]);
    CHECK(difference_of(x[i], y[i]) <= (drawn.is_signed ? 0.1 : tolerance));
  }
}

Mesh of_one_shard(const Mesh& mesh) {
  std::vector<MeshAxis> axes = mesh.axes();
  for (MeshAxis& axis : axes) axis.size = 1;
  return Mesh(axes, devices("cpu:0"));
}

void check_drawn_bits(const DrawnStep& drawn) {
  const LossFunction loss = tests::loss_of(drawn);
  ModelParallelOptions options = drawn.options;
  options.contraction_blocks = 8;
  ModelParallelOptions single = options;
  single.mesh = of_one_shard(options.mesh);
  single.zero = 0;
  const auto trained = [&](const ModelParallelOptions& how) {
    return fingerprint(to_tree(tests::trained_on(model_parallel(loss, *drawn.optimizer, how), drawn, 3).state));
  };
  CHECK(trained(options) == trained(single));
}

}  // namespace

TEST_CASE("drawn steps mean the same over a mesh") {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    const DrawnStep drawn = tests::drawn_step(seed, devices("cpu:0-1"));
    CAPTURE(drawn.text);
    check_drawn_near(drawn);
  }
}

TEST_CASE("drawn steps have the bits of one device with contraction_blocks") {
  for (std::uint64_t seed = 24; seed < 44; ++seed) {
    const DrawnStep drawn = tests::drawn_step(seed, devices("cpu:0-1"));
    CAPTURE(drawn.text);
    check_drawn_bits(drawn);
  }
}

namespace {

Array scores(Scope& s, const Array& x) { return dense(s["head"], reshape(x, {x.dim(0), -1}), {.units = 8}); }

Batch sequences_of(std::int64_t rows) {
  return {random::normal(random::key(1), {rows, 8, 16}, float64), random::randint(random::key(2), {rows}, 0, 8), {}};
}

std::string bits_of(const Model<Array, Array>& model, const Batch& batch, ModelParallelOptions options) {
  options.contraction_blocks = 8;
  const TrainStep step = model_parallel(tests::loss_of(model), optim::sgd(0.1), options);
  return fingerprint(to_tree(step(tests::fresh_state(step, model, batch), batch).first));
}

Mesh drawn_grid(std::int64_t data, std::int64_t model) {
  return Mesh({{"data", data}, {"model", model}}, devices("cpu:0"));
}

}  // namespace

TEST_CASE("bits over layouts: rows that no shards divide are padded alike on all meshes") {
  const Model<Array, Array> model(
      [](Scope& s, const Array& x) { return scores(s, tanh(dense(s["in"], x, {.units = 16}))); });
  for (const std::int64_t rows : {13, 16}) {
    for (const std::int64_t parts : {1, 4}) {
      CAPTURE(rows);
      CAPTURE(parts);
      const auto bits = [&](const Mesh& mesh) {
        return bits_of(model, sequences_of(rows), {.mesh = mesh, .microbatches = parts});
      };
      const std::string one = bits(drawn_grid(1, 1));
      for (const Mesh& mesh : {drawn_grid(2, 1), drawn_grid(8, 1), drawn_grid(2, 2)}) CHECK(bits(mesh) == one);
    }
  }
}

TEST_CASE("bits over layouts: queries that share a key may lie apart, and a bias may be one for all rows and heads") {
  const Model<Array, Array> shared(
      [](Scope& s, const Array& x) { return scores(s, multi_head_attention(s["a"], x, {.heads = 4, .kv_heads = 1})); });
  const Model<Array, Array> biased([](Scope& s, const Array& x) {
    const Array bias = s.trainable("bias", {.shape = {1, 1, 8, 8}, .dtype = float64});
    return scores(
        s, multi_head_attention(s["a"], x, {.heads = 4, .kv_heads = 2, .joint_projection = false}, {.bias = bias}));
  });
  const LayoutMap layouts = {{"a/query/.*", sharded("model", -1)}};
  for (const Model<Array, Array>& model : {shared, biased}) {
    const auto bits = [&](const Mesh& mesh) {
      return bits_of(model, sequences_of(8), {.mesh = mesh, .layouts = layouts});
    };
    const std::string one = bits(drawn_grid(1, 1));
    for (const Mesh& mesh : {drawn_grid(1, 2), drawn_grid(1, 4), drawn_grid(2, 2), drawn_grid(8, 1)})
      CHECK(bits(mesh) == one);
  }
}
