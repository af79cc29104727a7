#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/layer_run.h"

// What layers refuse, and state that kernel functions keep. Values are held by tests/golden/layers.

using namespace lockstep;

namespace {

template <class E, class F>
void layer_refuses(const F& layer, const Array& x, const char* first, const char* second = "") {
  tests::expect_error<E>([&] { tests::run_layer([&](const Scope& s, const Array& v) { return layer(s["l"], v); }, x); },
                         first, second);
}

}  // namespace

TEST_CASE("dense layers refuse what does not fit") {
  const Array x = zeros({2, 3, 4});
  const auto einsum_of = [](const EinsumDenseOptions& options) {
    return [options](const Scope& s, const Array& v) { return einsum_dense(s, v, options); };
  };
  layer_refuses<ValueError>(einsum_of({.equation = "btf->bt"}), x, "[einsum_dense 'l'] the equation is \"btf->bt\"",
                            "write the letters of x, of the kernel and of the result");
  layer_refuses<ValueError>(einsum_of({.equation = "btf,fg->btg"}), x, "give `extents` one of at least 1 for 'g'");
  layer_refuses<ValueError>(einsum_of({.equation = "btf,fg->btg", .extents = {{'f', 7}, {'g', 2}}}), x,
                            "`extents` has 7 for 'f'; give it letters of the kernel");
  layer_refuses<ValueError>(einsum_of({.equation = "btf,fg->btg", .extents = {{'g', 2}, {'h', 2}}}), x,
                            "has 2 for 'h'");
  layer_refuses<ShapeError>(einsum_of({.equation = "bf,fg->bg", .extents = {{'g', 2}}}), x, "its letters are \"bf\"");
  layer_refuses<ValueError>(einsum_of({.equation = "btf,fg->btg", .extents = {{'g', 2}}, .bias_axes = "f"}), x,
                            "the bias has \"f\"; give letters of the result");
  layer_refuses<ShapeError>(einsum_of({.equation = "btf,fg->btg", .extents = {{'g', 2}}}), zeros({2, 3, 4}, int32),
                            "give floats");
  layer_refuses<ShapeError>([](const Scope& s, const Array& v) { return prelu(s, v); }, zeros({2}, int32),
                            "[prelu 'l']", "give floats");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return lora(s, v, {.rank = 0}); }, zeros({2, 2}),
                            "[lora 'l'] rank is 0");
  layer_refuses<ShapeError>([](const Scope& s, const Array& v) { return lora(s, v); }, zeros({2}), "[lora 'l']",
                            "of rank 2 or more");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return spectral_norm(s, v, {.iterations = 0}); },
                            zeros({2, 2}), "[spectral_norm 'l'] iterations is 0");
  layer_refuses<ShapeError>([](const Scope& s, const Array& v) { return weight_norm(s, v); }, zeros({2}),
                            "[weight_norm 'l']");
}

TEST_CASE("convolutions and poolings refuse what does not fit") {
  const Array x = zeros({2, 4, 4, 4});
  using Options = ConvLayerOptions;
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return conv(s, v, Options{}); }, x, "[conv 'l']",
                            "0 filters");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) { return conv(s, v, Options{.filters = 3, .groups = 2}); }, x,
      "groups divides channels and filters");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) {
        return conv(s, v, Options{.filters = 1, .strides = {1, 1, 1}});
      },
      x, "strides are [1,1,1]; give one number of at least 1, or 2");
  layer_refuses<ShapeError>([](const Scope& s, const Array& v) { return conv(s, v, Options{.filters = 1}); },
                            zeros({2, 4}), "[conv 'l']", "of one to 3 spatial dimensions");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) {
        return conv_transpose(s, v, Options{.filters = 2, .padding = Padding::causal});
      },
      x, "[conv_transpose 'l']", "the padding is causal; expected same, valid or half");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) {
        return conv_transpose(s, v, Options{.filters = 2, .strides = {2}, .output_padding = {2}});
      },
      x, "output_padding is [2,2] with strides [2,2]");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) { return conv_transpose(s, v, Options{.filters = 3, .groups = 2}); }, x,
      "groups divides channels and filters");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return depthwise_conv(s, v, Options{.groups = 2}); },
                            x, "[depthwise_conv",
                            "there are 2 groups, which this layer does not read; conv has groups");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) { return separable_conv(s, v, Options{.filters = 2, .groups = 2}); }, x,
      "[separable_conv", "there are 2 groups, which this layer does not read");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) { return conv(s, v, Options{.filters = 2, .multiplier = 2}); }, x, "[conv",
      "the multiplier is 2, which this layer does not read; depthwise_conv and separable_conv");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) { return conv(s, v, Options{.filters = 2, .output_padding = {1}}); }, x,
      "there is an output padding, which this layer does not read; conv_transpose has one");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return batch_norm(s, v, {.momentum = 2}); }, x,
                            "[batch_norm", "momentum is 2; expected a share from 0 to 1");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) { return depthwise_conv(s, v, Options{.multiplier = 0}); }, x,
      "[depthwise_conv 'l']", "multiplier 0");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return separable_conv(s, v, Options{}); }, x,
                            "[separable_conv 'l']");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return group_norm(s, v, {.groups = 3}); }, x,
                            "4 channels, 3 groups");
  layer_refuses<ShapeError>([](const Scope& s, const Array& v) { return instance_norm(s, v); }, zeros({2}),
                            "[instance_norm");
  tests::expect_error<ValueError>([&] { static_cast<void>(adaptive_avg_pool(x, {2})); }, "[adaptive_avg_pool]",
                                  "give 2 extents of at least 1");
  tests::expect_error<ValueError>([&] { static_cast<void>(adaptive_max_pool(x, {2, 0})); }, "[adaptive_max_pool]");
  tests::expect_error<ValueError>([&] { static_cast<void>(adaptive_avg_pool(x, {-1, 2})); }, "given are [-1,2]");
  tests::expect_error<ValueError>([&] { static_cast<void>(resize(x, {})); }, "[resize]");
  tests::expect_error<ValueError>([&] { static_cast<void>(upsample(x, {2, 0})); }, "[upsample]", "give 2 numbers");
  tests::expect_error<ShapeError>([&] { static_cast<void>(global_max_pool(zeros({2, 3}))); }, "[global_max_pool]");
}

TEST_CASE("recurrent layers and those that draw refuse what does not fit") {
  const Array x = zeros({2, 3, 4});
  layer_refuses<ShapeError>([](const Scope& s, const Array& v) { return gru(s, v, {.units = 2}).first; }, zeros({2, 3}),
                            "[gru 'l']", "float sequences");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return simple_rnn(s, v, {}).first; }, x,
                            "[simple_rnn 'l'] units is 0");
  layer_refuses<ShapeError>(
      [](const Scope& s, const Array& v) { return lstm(s, v, {.units = 2}, {.lengths = array({1})}).first; }, x,
      "lengths are i32[1]; give lengths [2] or a mask [2,3]");
  layer_refuses<ShapeError>(
      [](const Scope& s, const Array& v) { return gru(s, v, {.units = 2}, {.mask = full({2}, true, bool_)}).first; }, x,
      "the mask is bool[2]");
  layer_refuses<ShapeError>(
      [](const Scope& s, const Array& v) {
        return gru(s, v, {.units = 2}, {.initial = zeros({2, 3})}).first;
      },
      x, "the initial state is f32[2,3]; give [2,2]");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return spatial_dropout(s, v, 1); }, x,
                            "[spatial_dropout 'l'] the rate is 1");
  layer_refuses<ShapeError>([](const Scope& s, const Array& v) { return spatial_dropout(s, v, 0.5); }, zeros({2, 3}),
                            "give [N, spatial..., C]");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return alpha_dropout(s, v, -1); }, x,
                            "[alpha_dropout 'l']");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return gaussian_dropout(s, v, 1); }, x,
                            "[gaussian_dropout 'l']");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return gaussian_noise(s, v, -1); }, x,
                            "[gaussian_noise 'l'] stddev is -1");
}

TEST_CASE("strides, windows and kernels of no extent are refused before anything is divided by them") {
  const Array x = zeros({2, 4, 4, 4});
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) {
        return conv2d(s, v, {.filters = 1, .strides = {0, 1}});
      },
      x, "[conv2d 'l'] strides are [0,1]; give numbers of at least 1");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) {
        return conv2d(s, v, {.filters = 1, .kernel = {-1, 3}});
      },
      x, "[conv2d 'l'] extents of the kernel are [-1,3]");
  layer_refuses<ValueError>(
      [](const Scope& s, const Array& v) {
        return conv2d(s, v, {.filters = 1, .dilation = {0, 1}});
      },
      x, "[conv2d 'l'] dilations are [0,1]");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return conv(s, v, {.filters = 1, .kernel = {-1}}); },
                            x, "[conv 'l'] kernel are [-1]; give one number of at least 1, or 2");
  for (const Padding padding : {Padding::same, Padding::valid}) {
    const Pool2dOptions none{.window = {0, 2}, .padding = padding}, back{.strides = {-1, 1}, .padding = padding};
    tests::expect_error<ValueError>([&] { static_cast<void>(max_pool2d(x, none)); },
                                    "[max_pool2d] extents of the window are [0,2]; give numbers of at least 1");
    tests::expect_error<ValueError>([&] { static_cast<void>(avg_pool2d(x, back)); }, "[avg_pool2d] strides are [-1,1]");
  }
  for (const Axes& strides : {Axes{0}, Axes{-1}, Axes{}}) {
    tests::expect_error<ShapeError>([&] { static_cast<void>(resolve_padding("SAME", {4}, {2}, strides)); },
                                    "padding \"SAME\": windows [2], strides [", "strides and dilations of 1 or more");
  }
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return weight_norm(s, v, {.epsilon = -1}); }, eye(2),
                            "[weight_norm 'l'] epsilon is -1; it must not be negative");
  layer_refuses<ValueError>([](const Scope& s, const Array& v) { return spectral_norm(s, v, {.epsilon = -1}); }, eye(2),
                            "[spectral_norm 'l'] epsilon is -1");
}

TEST_CASE("masks are of bool, lengths are integers, and states and biases are real") {
  const Array x = zeros({2, 3, 4}), q = zeros({2, 3, 1, 4});
  const auto gru_with = [](const SequenceOptions<Array>& sequence) {
    return [sequence](const Scope& s, const Array& v) { return gru(s, v, {.units = 2}, sequence).first; };
  };
  // 0.5, and the 0 and -inf of what is added to logits, would be true and false by chance.
  for (const Array& mask : {ones({2, 3}), full({2, 3}, 0.5), ones({2, 3}, int32)}) {
    layer_refuses<DtypeError>(gru_with({.mask = mask}), x, "[gru 'l'] the mask is ",
                              "give bool, true where a place is held");
  }
  layer_refuses<DtypeError>(gru_with({.lengths = ones({2})}), x, "[gru 'l'] lengths are f32[2]; give integers");
  layer_refuses<DtypeError>(gru_with({.lengths = full({2}, true, bool_)}), x, "lengths are bool[2]; give integers");
  layer_refuses<DtypeError>(gru_with({.initial = complex(zeros({2, 2}), ones({2, 2}))}), x,
                            "[gru 'l'] the initial state is c64[2,2]; give real numbers");
  for (const Array& bias : {full({3, 3}, true, bool_), complex(zeros({3, 3}), ones({3, 3}))}) {
    layer_refuses<DtypeError>(
        [&](const Scope& s, const Array& v) { return multi_head_attention(s, v, {.heads = 2}, {.bias = bias}); }, x,
        "[multi_head_attention 'l'] the bias is ", "is the mask");
    tests::expect_error<DtypeError>([&] { static_cast<void>(dot_product_attention(q, q, q, {.bias = bias})); },
                                    "dot_product_attention: the bias must be of floats", "is the mask");
  }
  // As jax.nn.dot_product_attention.
  for (const DType dtype : {float32, int32}) {
    tests::expect_error<DtypeError>(
        [&] {
          static_cast<void>(dot_product_attention(q, q, q, {.mask = ones({1, 1, 1, 3}, dtype)}));
        },
        "dot_product_attention: the mask must be of bool", "is the bias");
  }
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(dot_product_attention(q, q, q, {.mask = full({1, 1, 1, 2}, true, bool_)}));
      },
      "the mask must broadcast to [B, N, T, S] = [2,1,3,3], got [1,1,1,2]");
}

TEST_CASE("noise on integers is no integer, and positions are floats") {
  const Array x = ones({64}, int32);
  for (const auto& layer : std::vector<std::function<Array(const Scope&, const Array&)>>{
           [](const Scope&s, const Array&v) { return gaussian_noise(s, v, 0.1); },
           [](const Scope&s, const Array&v) { return gaussian_dropout(s, v, 0.1); }}) {
    const Array y = tests::run_layer(layer, x).y;
    CHECK(y.dtype() == float32);
    CHECK(fingerprint(y) == fingerprint(tests::run_layer(layer, convert(x, float32)).y));
  }
  tests::expect_error<DtypeError>([] { static_cast<void>(sinusoidal_positions(2, 4, 10000, int32)); },
                                  "[sinusoidal_positions] the dtype is int32; give a float dtype");
  tests::expect_error<DtypeError>([] { static_cast<void>(alibi_bias(1, 2, 2, 0, int32)); }, "[alibi_bias] the dtype");
  tests::expect_error<ValueError>([] { static_cast<void>(sinusoidal_positions(2, 4, 0)); }, "base is 0");
  tests::expect_error<ValueError>([] { static_cast<void>(rotary(ones({1, 2, 1, 4}), 0, -1)); }, "[rotary] base is -1");
}

TEST_CASE("spectral_norm finds the largest singular value over training calls, and keeps it in evaluation") {
  const auto layer = [](const Scope& s, const Array& v) {
    return dense(s, v, {.units = 3, .use_bias = false, .kernel_function = [](const Scope& own, const Array& k) {
                          return spectral_norm(own, k);
                        }});
  };
  const Model model([&](Scope& s, const Array& v) { return layer(s, v); });
  const Array x = eye(4, float64);
  auto [w, state] = model.init(random::key(3), x);
  for (int i = 0; i < 60; ++i) state = model.stateless_call(w, state, x, true).second;
  const auto [y, same] = model.stateless_call(w, state, x, false);
  CHECK(linalg::svdvals(y)[0].item<double>() == doctest::Approx(1));
  CHECK(fingerprint(same) == fingerprint(state));
}

TEST_CASE("lora trains its factors and not the kernel") {
  const Model model([](Scope& s, const Array& v) {
    return dense(s, v, {.units = 2, .kernel_function = [](const Scope& own, const Array& k) { return lora(own, k); }});
  });
  const Array x = tests::spread_values({3, 4});
  const auto [w, state] = model.init(random::key(1), x);
  const Tree slopes =
      grad([&, state = state](const Tree& v) { return sum(square(model.stateless_call(v, state, x, true).first)); })(w);
  CHECK(all(slopes.at("kernel").array() == 0).item<bool>());
  CHECK(any(slopes.at("lora_b").array() != 0).item<bool>());
}
