// Sequences of several lengths that a batch pads with NaN: a training step over shards and microbatches gives the loss and
// the gradients that the sequences have alone, unpadded.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/drawn_steps.h"

using namespace lockstep;

namespace {

constexpr std::int64_t sequence_features = 8;

/// How a layer is told what is padding.
enum class Padded { none, lengths, keys, pairs };

struct Places {
  Padded padded = Padded::none;
  Array lengths, held;  ///< [N], [N, T]

  template <class State>
  SequenceOptions<State> sequence(bool reverse = false) const {
    if (padded == Padded::none) return {.reverse = reverse};
    if (padded == Padded::lengths) return {.lengths = lengths, .reverse = reverse};
    return {.mask = held, .reverse = reverse};
  }
  /// `between`: what the logits have between rows and queries.
  AttentionContext context(const std::vector<std::int64_t>& between) const {
    if (padded == Padded::none) return {};
    if (padded == Padded::lengths) return {.lengths = lengths, .key_lengths = lengths};
    const auto along = [&](std::int64_t queries, std::int64_t keys) {
      std::vector<std::int64_t> extents = {held.dim(0)};
      extents.insert(extents.end(), between.begin(), between.end());
      extents.insert(extents.end(), {queries, keys});
      return reshape(held, extents);
    };
    const std::int64_t n = held.dim(1);
    return {.mask = padded == Padded::keys ? along(1, n) : along(n, 1) & along(1, n)};
  }
};

using PlacedLayer = std::function<Array(const Scope&, const Array&, const Places&)>;

const std::vector<PlacedLayer>& sequence_layers() {
  using S = const Scope&;
  using A = const Array&;
  using P = const Places&;
  const auto attention = [](const MultiHeadAttentionOptions& options) {
    return [options](S s, A x, P p) { return multi_head_attention(s, x, options, p.context({1})); };
  };
  static const std::vector<PlacedLayer> all = {
      [](S s, A x, P p) { return lstm(s, x, {.units = sequence_features}, p.sequence<LstmState>(true)).first; },
      [](S s, A x, P p) { return gru(s, x, {.units = sequence_features}, p.sequence<Array>()).first; },
      [](S s, A x, P p) { return mgu(s, x, {.units = sequence_features}, p.sequence<Array>()).first; },
      [](S s, A x, P p) {
        return bidirectional(s, x, [&](S own, A v, bool reverse) {
          return simple_rnn(own, v, {.units = sequence_features / 2}, p.sequence<Array>(reverse)).first;
        });
      },
      attention({.heads = 2}),
      attention({.heads = 4, .is_causal = true, .kv_heads = 2, .rotary = true}),
      attention({.heads = 2, .alibi = true, .joint_projection = false}),
      [](S s, A x, P p) {
        Places own = p;  // queries are not hidden by a mask of keys
        if (p.padded == Padded::keys) own.padded = Padded::pairs;
        return additive_attention(s, x, x, {}, own.context({}));
      }};
  return all;
}

struct Drawn {
  PlacedLayer first, second;
  Padded padded = Padded::lengths;
  bool embeds = false;
  std::size_t wrap = 0;
  Array x{}, y{}, weight{}, lengths{};
};

Array held_of(const Array& lengths, std::int64_t positions) {
  return expand_dims(arange(positions, int32), 0) < expand_dims(lengths, 1);
}

/// Of trees {"x", "lengths"}.
Model<Tree, Array> padded_model(const Drawn& d, Padded padded) {
  return Model<Tree, Array>([d, padded](Scope& s, const Tree& in) {
    Array x = in.at("x").array();
    if (d.embeds) x = embedding(s["table"], x, {.vocabulary = 9, .features = sequence_features, .dtype = float64});
    const Array lengths = in.at("lengths").array();
    const Places places{padded, lengths, held_of(lengths, x.dim(1))};
    const auto both = [&](const Scope& own, const Array& v) {
      return d.second(own["b"], layer_norm(own["n"], d.first(own["a"], v, places)), places);
    };
    const tests::StepLayer layer{"", both};
    const Array h = tests::drawn_steps::wrapped(d.wrap, s["l"], layer, x);
    return squeeze(dense(s["head"], h, {.units = 1}), {2});
  });
}

Drawn drawn_case(tests::Draws& draw) {
  const std::int64_t rows = 4 + static_cast<std::int64_t>(draw.below(5)), positions = 4;
  Drawn d{draw.of(sequence_layers()), draw.of(sequence_layers()),
          draw.of<Padded>({Padded::lengths, Padded::keys, Padded::pairs})};
  d.embeds = draw.chance(50);
  d.wrap = draw.below(4);
  std::vector<std::int32_t> lengths;
  for (std::int64_t i = 0; i < rows; ++i) lengths.push_back(1 + static_cast<std::int32_t>(draw.below(4)));
  const Array key = random::key(draw.below(1000));
  d.lengths = array(lengths);
  d.x = d.embeds ? random::randint(key, {rows, positions}, 0, 9) : random::normal(key, {rows, positions, 8}, float64);
  d.y = random::normal(random::fold_in(key, 1), {rows, positions}, float64);
  d.weight = random::uniform(random::fold_in(key, 2), {rows, positions}, float64);
  return d;
}

/// Loss and gradients of the sequences one by one.
std::pair<Array, Tree> unpadded(const Drawn& d, const Tree& w, const Tree& state) {
  const Model<Tree, Array> model = padded_model(d, Padded::none);
  const std::vector<std::int32_t> lengths = d.lengths.to_vector<std::int32_t>();
  const auto loss = [&](const Tree& v) {
    Weighted total{zeros({}, float64), zeros({}, float64)};
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      const auto own = [&](const Array& all) {
        const auto row = static_cast<std::int64_t>(i);
        return slice_in_dim(slice_in_dim(all, row, row + 1, 0), 0, lengths[i], 1);
      };
      const Tree in = Tree::dict({{"x", Tree(own(d.x))}, {"lengths", Tree(array({lengths[i]}))}});
      const Array y = model.stateless_call(v, state, in, true).first;
      const Weighted part = mean_squared_error(y, own(d.y), own(d.weight));
      total = {total.sum + part.sum, total.weight + part.weight};
    }
    return total.sum / total.weight;
  };
  return value_and_grad(loss)(w);
}

Tree padded_batch(const Drawn& d) {
  const Array held = held_of(d.lengths, d.y.dim(1));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Array x = d.embeds ? where(held, d.x, -100) : where(expand_dims(held, 2), d.x, nan);
  const Tree in = Tree::dict({{"x", Tree(x)}, {"lengths", Tree(d.lengths)}});
  return Tree::dict({{"in", in},
                     {"y", Tree(where(held, d.y, nan))},
                     {"places", Tree(where(held, d.weight, 0))},
                     {"weight", Tree(ones({d.x.dim(0)}))}});
}

void check_near(const Array& a, const Array& b, double room) {
  CHECK(max(abs(a - b)).item<double>() <= room * (1 + max(abs(b)).item<double>()));
}

}  // namespace

TEST_CASE("padding with NaN is in no loss and no gradient, over shards, microbatches and layouts") {
  for (std::uint64_t seed = 0; seed < 14; ++seed) {
    CAPTURE(seed);
    tests::Draws draw(seed);
    const Drawn d = drawn_case(draw);
    const Tree batch = padded_batch(d);
    const Model<Tree, Array> model = padded_model(d, d.padded);
    const auto [w, state] = model.init(random::key(7), batch.at("in"));
    const StepLoss loss([model](const Tree& v, const Tree& kept, const Tree& b) -> WithAux {
      auto [y, next] = model.stateless_call(v, kept, b.at("in"), true);
      const Array rows = expand_dims(convert(b.at("weight").array(), float64), 1);  // rows that fill up the shards
      return {Loss(mean_squared_error(y, b.at("y").array(), rows * b.at("places").array())), next, {}};
    });
    const auto shards = draw.of<std::int64_t>({1, 4}), parts = draw.of<std::int64_t>({1, 2});
    const auto on = devices(shards == 4 && draw.chance(50) ? "cpu:0-1" : "cpu:0");
    const LayoutMap columns = {{"l/.*kernel", sharded("model", -1)}};
    const TrainStep step =
        draw.chance(50) ? data_parallel(loss, optim::sgd(1), {.devices = on, .shards = shards, .microbatches = parts})
                        : model_parallel(loss, optim::sgd(1),
                                         {.mesh = Mesh({{"data", shards}, {"model", 2}}, on),
                                          .layouts = d.wrap == 2 ? LayoutMap() : columns,
                                          .zero = static_cast<int>(draw.below(4)),
                                          .microbatches = parts});
    const auto [value, slopes] = unpadded(d, w, state);
    const auto [after, logs] = step(step.init(w, state), batch);
    check_near(logs.at("loss"), value, 1e-12);
    const Tree moved = gather(after.trainable);
    for (const std::string& path : w.paths()) {
      CAPTURE(path);
      check_near(w.at(path).array() - moved.at(path).array(), slopes.at(path).array(), 1e-11);
    }
  }
}
