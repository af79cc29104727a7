#include "tests/golden/layers/catalogue.h"

namespace lockstep::tests::layers {
namespace {

using S = const Scope&;
using X = const Array&;
using Layers = std::vector<CatalogueLayer>;

Layers dense_layers() {
  const auto of_kernel = [](const std::string& name, const KernelFunction& function) {
    return CatalogueLayer{name, name, {4}, [function](S s, X x, Aggregation a) {
                            return dense(s, x, {.units = 3, .aggregation = a, .kernel_function = function});
                          }};
  };
  return {
      {"einsum_dense",
       "einsum_dense",
       {3, 4},
       [](S s, X x, Aggregation a) {
         return einsum_dense(
             s, x, {.equation = "btf,fhd->bthd", .extents = {{'h', 2}, {'d', 3}}, .bias_axes = "hd", .aggregation = a});
       }},
      {"einsum_dense/dots",
       "einsum_dense",
       {3, 4},
       [](S s, X x, Aggregation a) {
         return einsum_dense(s, x,
                             {.equation = "...f,fg->...g", .extents = {{'g', 4}}, .bias_axes = "g", .aggregation = a});
       }},
      {"gated_dense",
       "gated_dense",
       {3, 4},
       [](S s, X x, Aggregation a) { return gated_dense(s, x, {.units = 4, .aggregation = a}); }},
      {"prelu", "prelu", {3, 4}, [](S s, X x, Aggregation a) { return prelu(s, x, {.aggregation = a}); }},
      of_kernel("lora", [](S s, X k) { return lora(s, k, {.rank = 2, .alpha = 3}); }),
      of_kernel("weight_norm", [](S s, X k) { return weight_norm(s, k); }),
      of_kernel("spectral_norm", [](S s, X k) { return spectral_norm(s, k); }),
  };
}

Layers convolution_layers() {
  return {
      {"conv/causal",
       "conv",
       {6, 3},
       [](S s, X x, Aggregation a) {
         return conv(s, x, {.filters = 3, .padding = Padding::causal, .dilation = {2}, .aggregation = a});
       }},
      {"conv/volume",
       "conv",
       {3, 4, 3, 2},
       [](S s, X x, Aggregation a) {
         return conv(s, x, {.filters = 2, .kernel = {2, 3, 1}, .strides = {1, 2, 1}, .aggregation = a});
       }},
      {"conv/groups",
       "conv",
       {4, 3, 4},
       [](S s, X x, Aggregation a) {
         return conv(s, x, {.filters = 2, .padding = Padding::valid, .groups = 2, .aggregation = a});
       }},
      {"conv/half",
       "conv",
       {5, 4, 2},
       [](S s, X x, Aggregation a) {
         return conv(s, x,
                     {.filters = 2, .kernel = {4, 2}, .strides = {1, 2}, .padding = Padding::half, .aggregation = a});
       }},
      {"conv_transpose",
       "conv_transpose",
       {3, 2, 2},
       [](S s, X x, Aggregation a) {
         return conv_transpose(s, x, {.filters = 3, .kernel = {3, 2}, .strides = {2}, .aggregation = a});
       }},
      {"conv_transpose/valid",
       "conv_transpose",
       {4, 2},
       [](S s, X x, Aggregation a) {
         return conv_transpose(s, x, {.filters = 2, .strides = {2}, .padding = Padding::valid, .aggregation = a});
       }},
      {"conv_transpose/output_padding",
       "conv_transpose",
       {3, 2, 2},
       [](S s, X x, Aggregation a) {
         return conv_transpose(
             s, x, {.filters = 2, .kernel = {3, 2}, .strides = {2, 3}, .aggregation = a, .output_padding = {1, 0}});
       }},
      {"conv_transpose/half",
       "conv_transpose",
       {3, 2, 2},
       [](S s, X x, Aggregation a) {
         return conv_transpose(
             s, x, {.filters = 3, .strides = {2}, .padding = Padding::half, .aggregation = a, .output_padding = {1}});
       }},
      {"conv_transpose/half_even",
       "conv_transpose",
       {4, 2},
       [](S s, X x, Aggregation a) {
         return conv_transpose(
             s, x, {.filters = 3, .kernel = {4}, .strides = {2}, .padding = Padding::half, .aggregation = a});
       }},
      {"conv_transpose/groups",
       "conv_transpose",
       {4, 4},
       [](S s, X x, Aggregation a) {
         return conv_transpose(
             s, x, {.filters = 6, .strides = {2}, .padding = Padding::valid, .groups = 2, .aggregation = a});
       }},
      {"depthwise_conv",
       "depthwise_conv",
       {4, 3, 2},
       [](S s, X x, Aggregation a) {
         return depthwise_conv(s, x, {.kernel = {3, 2}, .strides = {2}, .multiplier = 2, .aggregation = a});
       }},
      {"separable_conv",
       "separable_conv",
       {3, 3, 2},
       [](S s, X x, Aggregation a) { return separable_conv(s, x, {.filters = 2, .multiplier = 2, .aggregation = a}); }},
      {"conv_local",
       "conv_local",
       {5, 2},
       [](S s, X x, Aggregation a) {
         return conv_local(s, x, {.filters = 3, .strides = {2}, .padding = Padding::valid, .aggregation = a});
       }},
      {"conv_local/image",
       "conv_local",
       {3, 4, 2},
       [](S s, X x, Aggregation a) {
         return conv_local(s, x, {.filters = 2, .kernel = {2, 3}, .dilation = {1, 2}, .aggregation = a});
       }},
  };
}

Layers normalizations() {
  return {
      {"group_norm",
       "group_norm",
       {3, 2, 4},
       [](S s, X x, Aggregation a) { return group_norm(s, x, {.groups = 2, .aggregation = a}); }},
      {"instance_norm",
       "instance_norm",
       {3, 2, 2},
       [](S s, X x, Aggregation a) { return instance_norm(s, x, {.epsilon = 1e-5, .aggregation = a}); }},
  };
}

Layers attention_layers() {
  const auto with = [](
                        const std::string& variant, MultiHeadAttentionOptions options,
                        const std::function<AttentionContext(X)>& context = [](X) { return AttentionContext{}; }) {
    return CatalogueLayer{
        "multi_head_attention/" + variant, "multi_head_attention", {4, 4}, [=](S s, X x, Aggregation a) {
          MultiHeadAttentionOptions own = options;
          own.aggregation = a;
          return multi_head_attention(s, x, own, context(x));
        }};
  };
  const auto lengths = [](X x) { return AttentionContext{.lengths = 2 + remainder(arange(x.dim(0)), 3)}; };
  return {
      with("grouped", {.heads = 4, .is_causal = true, .kv_heads = 2, .head_features = 2}),
      with("rotary", {.heads = 2, .is_causal = true, .rotary = true}),
      with("alibi", {.heads = 4, .alibi = true}),
      with("lengths", {.heads = 2}, lengths),
      with("cross", {.heads = 2, .use_bias = false},
           [](X x) { return AttentionContext{.keys = slice_in_dim(x, 1, 4, 1) * 0.5}; }),
      with("masked", {.heads = 2},
           [](X x) {
             const Array place = iota({1, 1, 4, 4}, 2, x.dtype()), other = iota({1, 1, 4, 4}, 3, x.dtype());
             return AttentionContext{.mask = place != other, .bias = 0.1 * place * other};
           }),
      {"additive_attention",
       "additive_attention",
       {4, 3},
       [](S s, X x, Aggregation a) {
         const Array values = slice_in_dim(x, 1, 4, 1) * 0.5;
         return additive_attention(s, x, concatenate({values, square(values)}, -1), {.aggregation = a},
                                   {.keys = values});
       }},
      {"additive_attention/lengths",
       "additive_attention",
       {4, 3},
       [lengths](S s, X x, Aggregation a) {
         const Array rows = *lengths(x).lengths;
         return additive_attention(s, x, x, {.use_scale = false, .is_causal = true, .aggregation = a},
                                   {.lengths = rows, .key_lengths = rows});
       }},
  };
}

Layers recurrences() {
  const auto lengths = [](X x) { return 1 + remainder(arange(x.dim(0)), 3); };
  const auto mask = [](X x) { return remainder(iota({x.dim(0), 3}, 0) + iota({x.dim(0), 3}, 1), 3) != 1; };
  return {
      {"lstm/lengths",
       "lstm",
       {3, 2},
       [=](S s, X x, Aggregation a) {
         return lstm(s, x, {.units = 2, .aggregation = a}, {.lengths = lengths(x)}).first;
       }},
      {"lstm/initial",
       "lstm",
       {3, 2},
       [](S s, X x, Aggregation a) {
         const Array start = squeeze(slice_in_dim(x, 0, 1, 1), 1);
         const auto [ys, last] =
             lstm(s, x, {.units = 2, .aggregation = a}, {.initial = LstmState{start, start * 0.5}, .reverse = true});
         return concatenate({ys, expand_dims(last.h, 1), expand_dims(last.c, 1)}, 1);
       }},
      {"gru", "gru", {3, 2}, [](S s, X x, Aggregation a) { return gru(s, x, {.units = 2, .aggregation = a}).first; }},
      {"gru/lengths",
       "gru",
       {3, 2},
       [=](S s, X x, Aggregation a) {
         const auto [ys, last] = gru(s, x, {.units = 2, .aggregation = a}, {.lengths = lengths(x), .reverse = true});
         return concatenate({ys, expand_dims(last, 1)}, 1);
       }},
      {"simple_rnn",
       "simple_rnn",
       {3, 2},
       [=](S s, X x, Aggregation a) {
         return simple_rnn(s, x, {.units = 2, .aggregation = a}, {.mask = mask(x)}).second;
       }},
      {"mgu", "mgu", {3, 2}, [](S s, X x, Aggregation a) { return mgu(s, x, {.units = 3, .aggregation = a}).first; }},
      {"mgu/plain",
       "mgu",
       {3, 2},
       [](S s, X x, Aggregation a) {
         const auto [ys, last] = mgu(s, x, {.units = 2, .reset_gate = false, .aggregation = a}, {.reverse = true});
         return concatenate({ys, expand_dims(last, 1)}, 1);
       }},
      {"conv_lstm/sequence",
       "conv_lstm",
       {3, 4, 2},
       [](S s, X x, Aggregation a) {
         return conv_lstm(s, x, {.filters = 2, .padding = Padding::valid, .aggregation = a}).first;
       }},
      {"conv_lstm",
       "conv_lstm",
       {3, 4, 3, 2},
       [](S s, X x, Aggregation a) {
         const auto [ys, last] = conv_lstm(s, x, {.filters = 2, .kernel = {3, 2}, .strides = {2, 1}, .aggregation = a});
         return concatenate({ys, expand_dims(last.h, 1), expand_dims(last.c, 1)}, 1);
       }},
      {"conv_lstm/lengths",
       "conv_lstm",
       {3, 4, 2},
       [=](S s, X x, Aggregation a) {
         return conv_lstm(s, x, {.filters = 2, .use_bias = false, .aggregation = a}, {.lengths = lengths(x)}).first;
       }},
      {"conv_lstm/volume",
       "conv_lstm",
       {2, 2, 3, 2, 1},
       [](S s, X x, Aggregation a) {
         return conv_lstm(s, x, {.filters = 1, .kernel = {2}, .aggregation = a}, {.reverse = true}).second.h;
       }},
      {"bidirectional",
       "bidirectional",
       {3, 2},
       [](S s, X x, Aggregation a) {
         return bidirectional(s, x, [a](S own, X v, bool reverse) {
           return gru(own, v, {.units = 1, .aggregation = a}, {.reverse = reverse}).first;
         });
       }},
  };
}

Layers without_variables() {
  const auto of = [](const std::string& name, const std::string& function, std::vector<std::int64_t> example,
                     const std::function<Array(X)>& call) {
    return CatalogueLayer{name, function, std::move(example), [call](S, X x, Aggregation) { return call(x); }};
  };
  return {
      of("global_avg_pool", "global_avg_pool", {3, 2, 2}, [](X x) { return global_avg_pool(x); }),
      of("global_max_pool", "global_max_pool", {3, 2, 2}, [](X x) { return global_max_pool(x); }),
      of("adaptive_avg_pool", "adaptive_avg_pool", {5, 4, 2},
         [](X x) {
           return adaptive_avg_pool(x, {2, 3});
         }),
      of("adaptive_max_pool", "adaptive_max_pool", {5, 4, 2},
         [](X x) {
           return adaptive_max_pool(x, {3, 3});
         }),
      of("upsample", "upsample", {3, 2, 2},
         [](X x) {
           return upsample(x, {2, 3});
         }),
      of("resize/nearest", "resize", {4, 3, 1},
         [](X x) {
           return resize(x, {3, 5}, Interpolation::nearest);
         }),
      of("resize/linear", "resize", {5, 3, 1},
         [](X x) {
           return resize(x, {3, 5});
         }),
      of("resize/cubic", "resize", {5, 4, 1},
         [](X x) {
           return resize(x, {3, 6}, Interpolation::cubic);
         }),
      of("resize/sharp", "resize", {7},
         [](X x) { return resize(expand_dims(x, 2), {4}, Interpolation::linear, false); }),
      of("mel_spectrogram", "mel_spectrogram", {40},
         [](X x) {
           return mel_spectrogram(x, {.fft_length = 16, .step = 5, .window = 12, .sampling_rate = 800, .bins = 4});
         }),
      of("mel_spectrogram/magnitudes", "mel_spectrogram", {30},
         [](X x) {
           return mel_spectrogram(x, {.fft_length = 15,
                                      .step = 7,
                                      .sampling_rate = 2000,
                                      .bins = 3,
                                      .lowest = 50,
                                      .highest = 700,
                                      .exponent = 1,
                                      .to_decibels = false});
         }),
      of("mel_filters", "mel_filters", {9}, [](X x) { return matmul(x, mel_filters(4, 9, 800, 20, 400, x.dtype())); }),
      of("rotary", "rotary", {3, 2, 4}, [](X x) { return rotary(x, 2, 100); }),
      of("sinusoidal_positions", "sinusoidal_positions", {3, 4},
         [](X x) { return x * sinusoidal_positions(3, 4, 10000, x.dtype()); }),
      of("alibi_bias", "alibi_bias", {6, 2, 3}, [](X x) { return x * alibi_bias(6, 2, 3, 1, x.dtype()); }),
  };
}

Layers drawing() {
  return {
      {"spatial_dropout",
       "spatial_dropout",
       {3, 2, 4},
       [](S s, X x, Aggregation) { return spatial_dropout(s, x, 0.5); },
       true},
      {"alpha_dropout", "alpha_dropout", {5}, [](S s, X x, Aggregation) { return alpha_dropout(s, x, 0.3); }, true},
      {"gaussian_dropout",
       "gaussian_dropout",
       {5},
       [](S s, X x, Aggregation) { return gaussian_dropout(s, x, 0.3); },
       true},
      {"gaussian_noise", "gaussian_noise", {5}, [](S s, X x, Aggregation) { return gaussian_noise(s, x, 0.3); }, true},
      {"multi_head_attention/dropout",
       "multi_head_attention",
       {4, 4},
       [](S s, X x, Aggregation a) {
         const AttentionContext context{.lengths = 2 + remainder(arange(x.dim(0)), 3)};
         return multi_head_attention(
             s, x, {.heads = 2, .is_causal = true, .aggregation = a, .kv_heads = 1, .dropout = 0.4, .alibi = true},
             context);
       },
       true},
  };
}

/// With values in tests/nn and tests/golden.
Layers held_elsewhere() {
  return {
      {"dense", "dense", {4}, [](S s, X x, Aggregation a) { return dense(s, x, {.units = 3, .aggregation = a}); }},
      {"embedding",
       "embedding",
       {3},
       [](S s, X x, Aggregation a) {
         return embedding(s, convert(abs(x) * 8, int32), {.vocabulary = 9, .features = 2, .aggregation = a});
       }},
      {"sequential",
       "sequential",
       {4},
       [](S s, X x, Aggregation a) {
         return sequential(s, x,
                           {[a](S own, X v) { return dense(own, v, {.units = 3, .aggregation = a}); },
                            [](S, X v) { return tanh(v); }});
       }},
      {"conv2d",
       "conv2d",
       {4, 3, 2},
       [](S s, X x, Aggregation a) {
         return conv2d(s, x, {.filters = 3, .strides = {2, 1}, .aggregation = a});
       }},
      {"max_pool2d",
       "max_pool2d",
       {4, 4, 2},
       [](S, X x, Aggregation) {
         return max_pool2d(x, {2, 2});
       }},
      {"avg_pool2d",
       "avg_pool2d",
       {4, 4, 2},
       [](S, X x, Aggregation) {
         return avg_pool2d(x, {2, 2});
       }},
      {"global_avg_pool2d", "global_avg_pool2d", {4, 3, 2}, [](S, X x, Aggregation) { return global_avg_pool2d(x); }},
      {"batch_norm",
       "batch_norm",
       {3, 4},
       [](S s, X x, Aggregation a) { return batch_norm(s, x, {.aggregation = a}); }},
      {"layer_norm",
       "layer_norm",
       {3, 4},
       [](S s, X x, Aggregation a) { return layer_norm(s, x, {.aggregation = a}); }},
      {"rms_norm", "rms_norm", {3, 4}, [](S s, X x, Aggregation a) { return rms_norm(s, x, {.aggregation = a}); }},
      {"dropout", "dropout", {5}, [](S s, X x, Aggregation) { return dropout(s, x, 0.3); }, true},
  };
}

}  // namespace

const std::vector<CatalogueLayer>& every_layer() {
  static const Layers all = [] {
    Layers joined = catalogue();
    const Layers others = held_elsewhere();
    joined.insert(joined.end(), others.begin(), others.end());
    return joined;
  }();
  return all;
}

const std::vector<CatalogueLayer>& catalogue() {
  static const Layers all = [] {
    Layers joined;
    for (const Layers& part : {dense_layers(), convolution_layers(), normalizations(), attention_layers(),
                               recurrences(), without_variables(), drawing()}) {
      joined.insert(joined.end(), part.begin(), part.end());
    }
    return joined;
  }();
  return all;
}

Array filled(const Shape& shape, std::int64_t which) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i) * 7919 + 13 + 37 * which;
    values[i] = 0.7 * (static_cast<double>(place % 101) / 50 - 1);
  }
  return array(values, shape);
}

Array rows_of(const CatalogueLayer& layer, std::int64_t rows) {
  std::vector<std::int64_t> extents = {rows};
  extents.insert(extents.end(), layer.example.begin(), layer.example.end());
  return filled(Shape(extents), 0);
}

std::pair<Tree, Tree> filled_variables(const Model<Array, Array>& model, const Array& x) {
  auto [trainable, state] = model.init(random::key(1), x);
  std::int64_t which = 0;
  trainable = map([&](const Array& v) { return filled(v.shape(), ++which); }, trainable);
  which = 50;
  state = map_with_path(
      [&](const std::string& path, const Array& v) {
        if (!is_float(v.dtype())) return v;
        const Array numbers = filled(v.shape(), ++which);
        return path.ends_with("variance") ? abs(numbers) : numbers;
      },
      state);
  return {trainable, state};
}

}  // namespace lockstep::tests::layers
