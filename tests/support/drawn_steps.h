#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/lockstep.h>
#include <lockstep/optim_contrib.h>
#include <lockstep/parallel_layers.h>

#include "tests/support/training.h"

// Steps of drawn models, layouts, meshes, optimizers and options.
namespace lockstep::tests {

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : bits_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::size_t below(std::size_t n) { return static_cast<std::size_t>((bits_() >> 7) % n); }
  bool chance(int percent) { return below(100) < static_cast<std::size_t>(percent); }
  template <class T>
  T of(const std::vector<T>& all) {
    return all[below(all.size())];
  }

 private:
  std::mt19937_64 bits_;
};

/// A layer whose result has the type of its input.
struct StepLayer {
  std::string name;
  std::function<Array(const Scope&, const Array&)> call;
  bool mixes_rows = false;
};

struct StepFamily {
  std::string name;
  std::vector<std::int64_t> row;
  std::vector<StepLayer> layers;
};

namespace drawn_steps {

using S = const Scope&;
using A = const Array&;

inline Array units_of(S s, A x, std::int64_t units) { return dense(s, x, {.units = units}); }
inline Array like(S s, A x) { return units_of(s, x, x.dim(-1)); }

inline StepLayer with_kernel(const std::string& name, const KernelFunction& kernel) {
  return {name, [kernel](S s, A x) { return tanh(dense(s["d"], x, {.units = x.dim(-1), .kernel_function = kernel})); }};
}

inline Array mixture(S s, A x) {
  const std::int64_t f = x.dim(-1);
  const auto variable = [&](const char* name, const Shape& shape) {
    return s.trainable(name, {.shape = shape, .dtype = x.dtype(), .initializer = initializers::glorot_uniform()});
  };
  const Array router = variable("router", {f, 8});
  const Array kernels = variable("experts", {8, f, f});
  const auto expert = [](const Array& k, const Array& t) { return tanh(matmul(t, k)); };
  return x + mixture_of_experts(x, matmul(x, router), kernels, expert, {.top_k = 2}).y;
}

inline Array table(S s, A x) {
  const Array places = convert(minimum(abs(stop_gradient(x)) * 3, 15), int32);
  return x + mean(embedding(s["t"], places, {.vocabulary = 16, .features = 8, .dtype = x.dtype()}), {-1});
}

inline Array lengths_of(A x) {
  const Array first = stop_gradient(slice_in_dim(reshape(x, {x.dim(0), -1}), 0, 1, 1));
  return convert(clip(abs(reshape(first, {-1})) * 6, 0, 8), int32);
}

inline std::vector<StepLayer> of_any_rank() {
  return {
      {"dense", [](S s, A x) { return tanh(like(s["d"], x)); }},
      {"mlp", [](S s, A x) { return x + like(s["out"], tanh(units_of(s["in"], x, x.dim(-1)))); }},
      {"wide", [](S s, A x) { return x + units_of(s["out"], gelu(units_of(s["in"], x, 32)), x.dim(-1)); }},
      {"gated", [](S s, A x) { return x + units_of(s["out"], gated_dense(s["g"], x, {.units = 16}), x.dim(-1)); }},
      {"prelu", [](S s, A x) { return prelu(s["p"], x); }},
      {"prelu_one", [](S s, A x) { return prelu(s["p"], x, {.per_channel = false}); }},
      {"layer_norm", [](S s, A x) { return layer_norm(s["n"], x); }},
      {"rms_norm", [](S s, A x) { return rms_norm(s["n"], x); }},
      {"batch_norm", [](S s, A x) { return batch_norm(s["n"], x, {.momentum = 0.9}); }, true},
      with_kernel("lora", [](S s, A w) { return lora(s, w, {.rank = 4}); }),
      with_kernel("spectral_norm", [](S s, A w) { return spectral_norm(s, w); }),
      with_kernel("weight_norm", [](S s, A w) { return weight_norm(s, w); }),
      {"table", table},
      {"dropout", [](S s, A x) { return dropout(s["drop"], x, 0.25); }},
      {"noise", [](S s, A x) { return gaussian_noise(s["drop"], x, 0.1); }},
      {"cumsum", [](S s, A x) { return tanh(cumsum(like(s["d"], x), -1)); }},
      {"softmax", [](S s, A x) { return x + softmax(like(s["d"], x)); }},
      {"sort", [](S s, A x) { return x + like(s["d"], sort(x, -1)); }},
      {"maxima", [](S s, A x) { return x + max(like(s["d"], x), Axes{-1}, true); }},
      {"flip", [](S s, A x) { return x + flip(like(s["d"], x), {-1}); }},
      {"joined",
       [](S s, A x) {
         const Array h = like(s["d"], x);
         return units_of(s["out"], concatenate(std::vector<Array>{x, h, x * h}, -1), x.dim(-1));
       }},
  };
}

inline std::vector<StepLayer> of_sequences() {
  const auto attention = [](const std::string& name, const MultiHeadAttentionOptions& options) {
    return StepLayer{name, [options](S s, A x) { return x + multi_head_attention(s["a"], x, options); }};
  };
  return {
      {"gru", [](S s, A x) { return gru(s["r"], x, {.units = x.dim(-1)}).first; }},
      {"lstm", [](S s, A x) { return lstm(s["r"], x, {.units = x.dim(-1)}); }},
      {"lstm_lengths",
       [](S s, A x) {
         return x + lstm(s["r"], x, {.units = x.dim(-1)}, {.lengths = lengths_of(x), .reverse = true}).first;
       }},
      {"mgu", [](S s, A x) { return x + mgu(s["r"], x, {.units = x.dim(-1)}).first; }},
      {"rnn", [](S s, A x) { return x + simple_rnn(s["r"], x, {.units = x.dim(-1)}).first; }},
      {"bidirectional",
       [](S s, A x) {
         return x + bidirectional(s["r"], x, [](S own, A v, bool reverse) {
                  return gru(own, v, {.units = v.dim(-1) / 2}, {.reverse = reverse}).first;
                });
       }},
      attention("attention", {.heads = 4, .is_causal = true}),
      attention("grouped", {.heads = 4, .kv_heads = 2, .rotary = true}),
      attention("alibi", {.heads = 4, .is_causal = true, .alibi = true, .joint_projection = false}),
      attention("dropped", {.heads = 2, .dropout = 0.25, .joint_projection = false}),
      {"lengths",
       [](S s, A x) {
         return x + multi_head_attention(s["a"], x, {.heads = 2, .kv_heads = 1}, {.lengths = lengths_of(x)});
       }},
      {"cross",
       [](S s, A x) { return x + multi_head_attention(s["a"], x, {.heads = 2}, {.keys = flip(x, {1}) * 0.5}); }},
      {"additive", [](S s, A x) { return x + additive_attention(s["a"], x, like(s["v"], x)); }},
      {"mixture", mixture},
      {"einsum",
       [](S s, A x) {
         const Array heads = einsum_dense(
             s["in"], x, {.equation = "btf,fhd->bthd", .extents = {{'h', 4}, {'d', 8}}, .bias_axes = "hd"});
         return x + einsum_dense(s["out"], tanh(heads),
                                 {.equation = "bthd,hdf->btf", .extents = {{'f', x.dim(-1)}}, .bias_axes = "f"});
       }},
      {"conv1d", [](S s, A x) { return tanh(conv(s["c"], x, {.filters = x.dim(-1), .padding = Padding::causal})); }},
      {"group_norm", [](S s, A x) { return group_norm(s["n"], x, {.groups = 4}); }},
      {"cached",
       [](S s, A x) {
         const MultiHeadAttentionOptions options{.heads = 2, .kv_heads = 1, .rotary = true};
         const KvCache cache = empty_cache(x, 8, options);
         auto [a, next] = multi_head_attention(s["a"], slice_in_dim(x, 0, 4, 1), cache, options);
         auto [b, last] = multi_head_attention(s["a"], slice_in_dim(x, 4, 8, 1), next, options);
         return x + concatenate(std::vector<Array>{a, b}, 1);
       }},
  };
}

inline std::vector<StepLayer> of_images() {
  return {
      {"conv", [](S s, A x) { return tanh(conv(s["c"], x, {.filters = x.dim(-1)})); }},
      {"dilated", [](S s, A x) { return x + conv(s["c"], x, {.filters = x.dim(-1), .dilation = {2}, .groups = 2}); }},
      {"depthwise", [](S s, A x) { return x + depthwise_conv(s["c"], x, {.multiplier = 1}); }},
      {"separable", [](S s, A x) { return x + separable_conv(s["c"], x, {.filters = x.dim(-1), .multiplier = 2}); }},
      {"local", [](S s, A x) { return x + conv_local(s["c"], x, {.filters = x.dim(-1)}); }},
      {"down_up",
       [](S s, A x) {
         const Array h = conv(s["down"], x, {.filters = 16, .strides = {2}});
         return x + conv_transpose(s["up"], tanh(h), {.filters = x.dim(-1), .strides = {2}});
       }},
      {"instance_norm", [](S s, A x) { return instance_norm(s["n"], x); }},
      {"group_norm", [](S s, A x) { return group_norm(s["n"], x, {.groups = 4}); }},
      {"places",
       [](S s, A x) {
         const Array seen = like(s["d"], global_avg_pool(x));
         std::vector<std::int64_t> one(static_cast<std::size_t>(x.ndim()), 1);
         one.front() = x.dim(0);
         one.back() = x.dim(-1);
         return x * sigmoid(reshape(seen, one));
       }},
      {"spatial_dropout", [](S s, A x) { return spatial_dropout(s["drop"], x, 0.25); }},
  };
}

inline std::vector<StepLayer> of_pictures() {
  return {
      {"pooled",
       [](S s, A x) {
         const Array h = max_pool2d(x, {.window = {2, 2}, .strides = {1, 1}, .padding = Padding::same});
         return x + like(s["d"], h);
       }},
      {"resized",
       [](S s, A x) {
         return x + upsample(like(s["d"], avg_pool2d(x, {2, 2})), {2, 2});
       }},
      {"conv_lstm",
       [](S s, A x) {
         const Array steps = stack(std::vector<Array>{x, x * 0.5}, 1);
         return conv_lstm(s["r"], steps, {.filters = x.dim(-1)}).second.h;
       }},
  };
}

inline std::vector<StepLayer> joined(std::vector<StepLayer> a, const std::vector<StepLayer>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

inline std::vector<StepFamily> families() {
  const std::vector<StepLayer> any = of_any_rank();
  return {{"vectors", {16}, any},
          {"sequences", {8, 16}, joined(of_sequences(), joined(of_sequences(), any))},
          {"lines", {8, 8}, joined(of_images(), any)},
          {"images", {8, 8, 8}, joined(of_pictures(), joined(of_images(), any))},
          {"volumes", {4, 4, 4, 8}, joined(of_images(), any)}};
}

}  // namespace drawn_steps

struct DrawnStep {
  std::string text;
  std::function<Array(Scope&, const Array&)> network;
  Batch batch;
  DType dtype;
  LayoutMap layouts;
  std::optional<optim::GradientTransformation> optimizer;
  ModelParallelOptions options;
  bool mixes_rows = false;
  bool is_signed = false;  ///< The optimizer makes much of rounding.
  double penalty = 0;
};

struct NamedOptimizer {
  std::string name;
  optim::GradientTransformation make;
  bool is_signed = false;
  bool needs_function = false;
};

inline std::vector<NamedOptimizer> step_optimizers() {
  using namespace optim;
  const auto is_kernel = [](const std::string&, const Array& leaf) { return leaf.ndim() >= 2 ? "matrices" : "rest"; };
  const AdafactorOptions small{.squares = {.least_dimension = 4}};
  return {{"sgd", sgd(0.1)},
          {"momentum", sgd(0.05, 0.9, true)},
          {"adam", adam(1e-2, 0.9, 0.999, 1e-3)},
          {"adamw", adamw(1e-2, 0.9, 0.999, 1e-3, 0.1)},
          {"adafactor", adafactor(1e-2, small), true},
          {"lamb", lamb(1e-2, 0.9, 0.999, 1e-3, 0.01)},
          {"muon", muon(1e-2), true},
          {"lion", lion(1e-2), true},
          {"lars", lars(1e-1, {.weight_decay = 0.01})},
          {"novograd", novograd(1e-2), true},
          {"sm3", sm3(1e-2), true},
          {"sam", sam(sgd(0.1), chain(normalize(), sgd(0.05)))},
          {"schedule_free", schedule_free_sgd(0.1)},
          {"lookahead", lookahead(sgd(0.1), 2, 0.5)},
          {"multi_steps", multi_steps(adam(1e-2, 0.9, 0.999, 1e-3), 2)},
          {"masked", chain(masked(add_decayed_weights(0.1), below("l0")), sgd(0.1))},
          {"partition", optim::partition({{"matrices", lamb(1e-2, 0.9, 0.999, 1e-3)}, {"rest", sgd(0.1)}}, is_kernel)},
          {"clip", chain(clip_by_global_norm(0.1), sgd(1.0))},
          {"agc", chain(adaptive_grad_clip(0.01), sgd(1.0))},
          {"block_rms", chain(clip_by_block_rms(0.01), sgd(1.0))},
          {"noise", chain(add_noise(0.01, 0.55, random::key(7)), sgd(0.1))},
          {"centralize", chain(centralize(), sgd(0.1))},
          {"max_norm", chain(sgd(0.1), masked(keep_params_max_norm(1.0),
                                              [](std::string_view path) { return !path.ends_with("alpha"); }))},
          {"trust", chain(scale_by_trust_ratio(), sgd(0.1))},
          {"freeze", chain(freeze(optional(below("l0"))), sgd(0.1))},
          {"lbfgs", lbfgs(0.05, 3)},
          {"polyak", polyak_sgd({.max_rate = 0.1})},
          {"dog", dog(), true},
          {"prodigy", prodigy(), true},
          {"average", chain(sgd(0.1), average_parameters(0.9))},
          {"ademamix", ademamix(1e-2, {.epsilon = 1e-3})},

          {"plateau", chain(sgd(0.1), reduce_on_plateau())},
          {"search", chain(sgd(0.1), scale_by_backtracking_linesearch({})), false, true}};
}

inline Layout drawn_layout(Draws& d, const Shape& shape, const Mesh& mesh) {
  std::vector<DimensionAxes> cuts(static_cast<std::size_t>(shape.rank()));
  std::vector<MeshAxis> axes = mesh.axes();
  if (d.chance(50)) std::reverse(axes.begin(), axes.end());
  for (const MeshAxis& axis : axes) {
    if (shape.rank() == 0 || d.chance(35)) continue;
    const std::size_t dim = d.below(cuts.size());
    std::vector<std::string> names = cuts[dim].names();
    std::int64_t count = axis.size;
    for (const std::string& name : names) count *= mesh.size(name);
    if (shape[static_cast<int>(dim)] % count != 0) continue;
    names.push_back(axis.name);
    cuts[dim] = names;
  }
  return Layout::by_dimension(cuts);
}

struct DrawnMesh {
  Mesh mesh;
  std::optional<DimensionAxes> batch;
  std::string text;
};

inline DrawnMesh drawn_mesh(Draws& d, const std::vector<Device>& devices) {
  const std::size_t which = d.below(8);
  const auto of = [&](std::vector<MeshAxis> axes) { return Mesh(std::move(axes), devices); };
  switch (which) {
    case 0:
      return {of({{"data", 8}}), {}, "8"};
    case 1:
      return {of({{"data", 4}, {"model", 2}}), {}, "4x2"};
    case 2:
      return {of({{"data", 2}, {"model", 2}, {"expert", 2}}), {}, "2x2x2"};
    case 3:
      return {of({{"data", 2}, {"model", 4}}), {}, "2x4"};
    case 4:
      return {of({{"data", 1}, {"model", 8}}), {}, "1x8"};
    case 5:
      return {of({{"model", 2}, {"data", 4}}), {}, "model2 x data4"};
    case 6:
      return {of({{"data", 2}, {"model", 2}, {"expert", 2}}), DimensionAxes{"data", "expert"}, "2x2x2 data,expert"};
    default:
      return {of({{"model", 4}, {"expert", 2}}), DimensionAxes(), "model4 x expert2, whole batch"};
  }
}

namespace drawn_steps {

/// A layer as it is, or in remat, in a scan over two of it, or in jit.
inline Array wrapped(std::size_t wrap, const Scope& s, const StepLayer& layer, const Array& x) {
  const auto& f = layer.call;
  const auto checkpointed = [&](const Scope& own, const Array& v) {
    return remat([&](const Array& u) { return f(own, u); })(v);
  };
  if (wrap == 1) return checkpointed(s, x);
  if (wrap == 2) return scan_layers(s, 2, f, x);
  if (wrap == 3) return jit([&](const Array& v) { return f(s, v); })(x);
  if (wrap == 5) return scan_layers(s, 2, checkpointed, x);
  return f(s, x);
}

/// One to three layers of a family in front of the head. Whether the loss is of labels.
inline bool draw_network(Draws& d, const StepFamily& family, DrawnStep& step) {
  static const std::vector<std::string> wrap_names = {"", "remat ", "scan ", "jit ", "", "remat scan ", ""};
  std::vector<std::pair<StepLayer, std::size_t>> layers;
  const std::size_t count = 1 + d.below(3);
  for (std::size_t i = 0; i < count; ++i) {
    const StepLayer layer = d.of(family.layers);
    const std::size_t wrap = d.below(7);
    if (layer.mixes_rows) step.mixes_rows = true;
    step.text += (i > 0 ? ", " : "") + wrap_names[wrap] + layer.name;
    layers.emplace_back(layer, wrap);
  }
  const bool labels = d.chance(30);
  step.network = [layers, labels](Scope& s, const Array& input) {
    Array x = input;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = wrapped(layers[i].second, s["l" + std::to_string(i)], layers[i].first, x);
    }
    return dense(s["head"], reshape(x, {x.dim(0), -1}), {.units = labels ? 8 : 1});
  };
  return labels;
}

/// Rows of normal numbers; without weights, or with some of weight 0, which are NaN.
inline void draw_batch(Draws& d, std::uint64_t seed, const StepFamily& family, bool labels, DrawnStep& step) {
  const std::int64_t rows = d.of(std::vector<std::int64_t>{8, 16, 16, 13, 32});
  const Shape shape = Shape(family.row).insert(0, rows);
  step.batch = {random::normal(random::key(seed + 1), shape, step.dtype),
                labels ? random::randint(random::key(seed + 2), {rows}, 0, 8)
                       : random::normal(random::key(seed + 2), {rows, 1}, step.dtype),
                {}};
  const std::size_t mask = d.below(3);
  step.text += "] rows " + std::to_string(rows) + (labels ? " labels" : "") + " mask " + std::to_string(mask);
  if (mask == 0) return;
  const Array hidden = remainder(arange(rows, int32), 5) == 3;
  step.batch.weight =
      where(hidden, 0.0F, mask == 2 ? convert(remainder(arange(rows, int32), 3), float32) + 0.5F : ones({rows}));
  std::vector<std::int64_t> flat(static_cast<std::size_t>(shape.rank()), 1);
  flat[0] = rows;
  step.batch.x = where(reshape(hidden, flat), std::numeric_limits<double>::quiet_NaN(), step.batch.x);
}

inline void draw_options(Draws& d, const DrawnMesh& mesh, DrawnStep& step) {
  const NamedOptimizer optimizer = d.of(step_optimizers());
  step.optimizer = optimizer.make;
  step.is_signed = optimizer.is_signed;
  ModelParallelOptions& options = step.options;
  options.mesh = mesh.mesh;
  options.batch = mesh.batch;
  options.zero = static_cast<int>(d.below(4));
  if (!step.mixes_rows) options.microbatches = d.of(std::vector<std::int64_t>{1, 1, 2, 4});
  if (d.chance(20)) options.loss_scale = LossScale{.initial = 64, .growth_steps = 2};
  if (d.chance(20)) step.penalty = 0.01;
  step.text += " " + optimizer.name + " mesh " + mesh.text + " zero " + std::to_string(options.zero) + " parts " +
               std::to_string(options.microbatches) + (options.loss_scale ? " scaled" : "") +
               (step.penalty > 0 ? " penalty" : "");
}

/// Rules for most of the variables.
inline void draw_layouts(Draws& d, const Mesh& mesh, DrawnStep& step) {
  const Model<Array, Array> model(step.network);
  const auto [trainable, rest] = model.init(random::key(3), step.batch.x);
  std::vector<LayoutMap::Rule> rules;
  for (const Tree& tree : {trainable, rest}) {
    const std::vector<std::string> paths = tree.paths();
    const std::vector<Array> leaves = tree.leaves();
    for (std::size_t i = 0; i < paths.size(); ++i) {
      if (d.chance(30)) continue;
      rules.push_back({paths[i], drawn_layout(d, leaves[i].shape(), mesh)});
      step.text += "\n    " + paths[i] + ": " + to_string(rules.back().layout);
    }
  }
  step.options.layouts = LayoutMap(rules);
}

}  // namespace drawn_steps

/// With a fixed seed, a fixed step.
inline DrawnStep drawn_step(std::uint64_t seed, const std::vector<Device>& devices) {
  Draws d(seed);
  DrawnStep step;
  const StepFamily family = d.of(drawn_steps::families());
  step.dtype = d.chance(70) ? float64 : float32;
  step.text = std::to_string(seed) + ": " + family.name + " " + std::string(name(step.dtype)) + " [";
  const bool labels = drawn_steps::draw_network(d, family, step);
  const DrawnMesh mesh = drawn_mesh(d, devices);
  drawn_steps::draw_batch(d, seed, family, labels, step);
  drawn_steps::draw_options(d, mesh, step);
  drawn_steps::draw_layouts(d, mesh.mesh, step);
  return step;
}

inline LossFunction loss_of(const DrawnStep& step) {
  const Model<Array, Array> model(step.network);
  return [model, penalty = step.penalty](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    Loss loss = error_of(y, b);
    if (penalty > 0) loss = loss + l2_penalty(w, penalty);
    return WithAux{loss, next, {{"size", weighted(mean(square(reshape(y, {y.dim(0), -1})), Axes{1}), b.weight)}}};
  };
}

inline Trained trained_on(const TrainStep& step, const DrawnStep& drawn, int steps) {
  return train(step, fresh_state(step, Model<Array, Array>(drawn.network), drawn.batch), steps,
               [&](int) { return drawn.batch; });
}

}  // namespace lockstep::tests
