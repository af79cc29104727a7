#include "tests/fuzz/drawn_models.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace lockstep::tests {
namespace {

using Draws = std::mt19937_64;

template <class T>
const T& one_of(Draws& draws, const std::vector<T>& choices) {
  return choices[draws() % choices.size()];
}

struct Family {
  std::string name;
  std::vector<std::int64_t> row;  ///< The shape of one row.
  std::vector<DrawnLayer> layers;
};

const std::vector<Family>& families() {
  static const std::vector<Family> all = {
      {"vectors",
       {6},
       {{"dense", [](const Scope& s, const Array& x) { return tanh(dense(s["dense"], x, {.units = x.dim(-1)})); }},
        {"layer_norm", [](const Scope& s, const Array& x) { return layer_norm(s["norm"], x); }},
        {"rms_norm", [](const Scope& s, const Array& x) { return rms_norm(s["norm"], x); }},
        {"residual",
         [](const Scope& s, const Array& x) {
           const Array h = gelu(dense(s["in"], layer_norm(s["norm"], x), {.units = 2 * x.dim(-1)}));
           return x + dense(s["out"], h, {.units = x.dim(-1)});
         }},
        {"embedding",
         [](const Scope& s, const Array& x) {
           const Array places = convert(minimum(abs(stop_gradient(x)) * 3, 8), int32);
           const Array embedded = embedding(s["table"], places, {.vocabulary = 9, .features = 4});
           return x + convert(mean(embedded, {-1}), x.dtype());
         }}}},
      {"images",
       {4, 4, 3},
       {{"conv2d", [](const Scope& s, const Array& x) { return tanh(conv2d(s["conv"], x, {.filters = x.dim(-1)})); }},
        {"depthwise",
         [](const Scope& s, const Array& x) {
           return x + conv2d(s["conv"], x, {.filters = x.dim(-1), .groups = x.dim(-1)});
         }},
        {"pooled",
         [](const Scope& s, const Array& x) {
           const Array pooled = max_pool2d(x, {.window = {2, 2}, .strides = {1, 1}, .padding = Padding::same});
           return x + conv2d(s["conv"], pooled, {.filters = x.dim(-1), .kernel = {1, 1}});
         }}}},
      {"sequences",
       {4, 6},
       {{"attention",
         [](const Scope& s, const Array& x) {
           return x + multi_head_attention(s["attention"], layer_norm(s["norm"], x), {.heads = 2, .is_causal = true});
         }},
        {"lstm", [](const Scope& s, const Array& x) { return lstm(s["lstm"], x, {.units = x.dim(-1)}); }},
        {"dense",
         [](const Scope& s, const Array& x) { return relu(dense(s["dense"], x, {.units = x.dim(-1)})) + x; }}}},
  };
  return all;
}

Array branch(const Scope& s, const Array& x, const LayerFunction& f, bool taken) {
  return cond(
      Operand(full({}, taken, bool_)), [&](const Array& v) { return f(s, v); }, [](const Array& v) { return v * 0.5; },
      x);
}

std::vector<DrawnTransform> wrappers() {
  return {
      {"plain", once, once},
      {"jit", in_jit, once},
      {"remat", in_remat, once},
      {"cond",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         return branch(s, x, f, true) + branch(s, x, f, false);
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) { return f(s, x) + x * 0.5; }},
      {"switch_", in_switch, once},
      {"jvp", in_jvp, once, true, false},
      {"scan_layers",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         return scan_layers(
             s["stack"], 2, [&](const Scope& layer, const Array& v) { return f(layer, v); }, x);
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         return f(s["stack"]["1"], f(s["stack"]["0"], x));
       }},
      {"vmap",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         return vmap([&](const Array& v) { return f(s, v); }, {.axis_name = "examples"})(expand_dims(x, 0))[0];
       },
       once, false},
  };
}

/// Of one layer, again and again.
std::vector<DrawnTransform> loops() {
  return {
      {"scan", in_scan, twice},
      {"fori_loop", in_fori_loop, twice},
      {"map",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         const Array ys = map([&](const Array& v) { return f(s, v); }, stack(std::vector<Array>{x, x * 0.5}, 0));
         return ys[0] - ys[1] * 0.25;  // of a layer that scale does not change, a whole one would leave rounding alone
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         const Array a = f(s, x);
         return a - f(s, x * 0.5) * 0.25;
       }},
      {"remat in scan", in_remat_in_scan, twice},
      {"scan in remat in jit", in_scan_in_remat_in_jit, twice},
      {"cond in loop",
       [](const Scope& s, const Array& x, const LayerFunction& f) {
         return fori_loop(
             0, 2,
             [&](const Array& i, const Array& v) {
               return cond(
                   i == 0, [&](const Array& u) { return f(s, u); }, [](const Array& u) { return u * 0.5; }, v);
             },
             x);
       },
       [](const Scope& s, const Array& x, const LayerFunction& f) { return f(s, x) * 0.5; }},
  };
}

const std::vector<DrawnTransform>& transforms() {
  static const std::vector<DrawnTransform> all = [] {
    std::vector<DrawnTransform> both = wrappers();
    for (DrawnTransform& transform : loops()) {
      transform.sums_alike = false;
      both.push_back(std::move(transform));
    }
    return both;
  }();
  return all;
}

LayerFunction followed(const LayerFunction& layer, Between between, bool per_microbatch) {
  switch (between) {
    case Between::dropout:
      return [layer](const Scope& s, const Array& x) { return dropout(s["drop"], layer(s, x), 0.25); };
    case Between::batch_norm:
      return [layer, per_microbatch](const Scope& s, const Array& x) {
        return batch_norm(s["batch_norm"], layer(s, x), {.momentum = 0.5, .per_microbatch = per_microbatch});
      };
    default:
      return layer;
  }
}

Array draw_values(Draws& draws, const Shape& shape, DType dtype) {
  std::normal_distribution<double> normal;
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (double& v : values) v = normal(draws);
  return convert(array(values, shape), dtype);
}

/// Rows of weight 0 hold what no row may: in x and y of `batch`, zeros in `cleaned`.
void draw_batch(Draws& draws, const Family& family, DrawnModel& model) {
  const std::int64_t rows = one_of<std::int64_t>(draws, {8, 13, 16, 24});
  std::vector<std::int64_t> shape = family.row;
  shape.insert(shape.begin(), rows);
  const Array x = draw_values(draws, Shape(shape), model.dtype), y = draw_values(draws, {rows, 1}, model.dtype);
  const std::uint64_t masks = draws() % 3;  // no weights; some of 0; some of 0, the others of all sizes
  if (masks == 0) {
    model.batch = model.cleaned = {x, y, ones({rows})};
    model.text += fmt::format(", {} rows", rows);
    return;
  }
  std::vector<float> weight(static_cast<std::size_t>(rows));
  for (float& w : weight) w = draws() % 3 == 0 ? 0.F : masks == 1 ? 1.F : 0.25F * static_cast<float>(1 + draws() % 8);
  weight[draws() % weight.size()] = 1;
  const Array w = array(weight, Shape{rows});
  const double bad =
      one_of<double>(draws, {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), -1e30});
  std::vector<std::int64_t> column(shape.size(), 1);
  column[0] = rows;
  const Array counts = w != 0;
  const auto filled = [&](double value) {
    return Batch{where(reshape(counts, column), x, value), where(reshape(counts, {rows, 1}), y, value), w};
  };
  model.batch = filled(bad);
  model.cleaned = filled(0);
  model.text += fmt::format(", {} rows, {} where the weight is 0", rows, bad);
}

Model<Array, Array> built(const DrawnModel& drawn, bool lifted) {
  const auto layers = drawn.layers;
  const auto transforms = drawn.transforms;
  return Model<Array, Array>([layers, transforms, lifted](Scope& s, const Array& x) {
    Array h = x;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const LayerTransform& transform = lifted ? transforms[i].lifted : transforms[i].plain;
      h = transform(s["layer_" + std::to_string(i)], h, layers[i].layer);
    }
    return dense(s["head"], reshape(h, {h.dim(0), -1}), {.units = 1});
  });
}

}  // namespace

Model<Array, Array> DrawnModel::lifted() const { return built(*this, true); }
Model<Array, Array> DrawnModel::plain() const { return built(*this, false); }

bool DrawnModel::draws_alike() const {
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!transforms[i].draws_alike && layers[i].name.ends_with("dropout")) return false;
  }
  return true;
}

bool DrawnModel::sums_alike() const {
  return std::ranges::all_of(transforms, [](const DrawnTransform& transform) { return transform.sums_alike; });
}

DrawnModel draw_model(std::uint64_t seed) {
  Draws draws(seed * 0x9E3779B97F4A7C15U + 1);
  DrawnModel model;
  const Family& family = one_of(draws, families());
  model.dtype = one_of<DType>(draws, {float32, float64, bfloat16, float16});
  model.shards = one_of<std::int64_t>(draws, {1, 2, 4, 8});
  model.microbatches = one_of<std::int64_t>(draws, {1, 2, 4});
  model.per_microbatch = draws() % 2 == 0;
  model.text = fmt::format("{} {}, {} shards of {} microbatches", name(model.dtype), family.name, model.shards,
                           model.microbatches);
  const std::size_t count = 1 + draws() % 2;
  for (std::size_t i = 0; i < count; ++i) {
    const DrawnLayer& layer = one_of(draws, family.layers);
    const auto between = one_of<Between>(draws, {Between::nothing, Between::dropout, Between::batch_norm});
    const std::string behind = between == Between::nothing   ? ""
                               : between == Between::dropout ? " dropout"
                                                             : " batch_norm";
    model.has_batch_norm = model.has_batch_norm || between == Between::batch_norm;
    model.layers.push_back({layer.name + behind, followed(layer.layer, between, model.per_microbatch)});
    model.transforms.push_back(one_of(draws, transforms()));
    model.text += fmt::format("; {}{} in {}", layer.name, behind, model.transforms.back().name);
  }
  draw_batch(draws, family, model);
  return model;
}

}  // namespace lockstep::tests
