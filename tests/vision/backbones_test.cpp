#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/vision.h>

#include "tests/support/expect_error.h"

// Every model without its head, inside of another model: the same variables below the scope, and it trains, with one
// meaning over shards and under transforms.

using namespace lockstep;

namespace {

using Features = std::function<Array(const Scope&, const Array&)>;

struct Backbone {
  const char* name;
  Features whole, features;  ///< With its head and without.
  Array x;
};

const models::TransformerOptions narrow{.width = 8, .depth = 1, .heads = 2};

/// A model with options that have `head`.
template <class Options, class F>
Backbone backbone(const char* name, const F& model, Options options, const Array& x) {
  Options without = options;
  without.head = false;
  return {name, [=](const Scope& s, const Array& v) { return model(s, v, options); },
          [=](const Scope& s, const Array& v) { return model(s, v, without); }, x};
}

std::vector<Backbone> backbones() {
  using namespace models;
  const Array image = sin(reshape(arange(8 * 8 * 8 * 2), {8, 8, 8, 2}) * 1.3);
  const Array tokens = remainder(reshape(arange(8 * 6) * 5, {8, 6}), 11);
  const auto vae_result = [](const Scope& s, const Array& x, const VaeOptions& o) { return vae(s, x, o).result; };
  const auto of_gpt = [](const Scope& s, const Array& x, const GptOptions& o) { return gpt(s, x, o); };
  const auto of_encoder = [](const Scope& s, const Array& x, const EncoderOptions& o) { return encoder(s, x, o); };
  return {
      backbone("mlp", mlp, MlpOptions{.units = 8}, image),
      backbone("cnn", cnn, CnnOptions{.dropout = 0}, image),
      backbone("lenet", lenet, LenetOptions{}, sin(reshape(arange(8 * 12 * 12), {8, 12, 12, 1}) * 1.3)),
      backbone("resnet", resnet, ResnetOptions{.filters = {4, 6}, .blocks = {1}}, image),
      backbone("bottlenecks", resnet, ResnetOptions{.filters = {2, 3}, .blocks = {1, 2}, .bottleneck = true}, image),
      backbone("resnet_v2", resnet_v2, ResnetV2Options{.blocks = {1, 1}}, image),
      backbone("vgg", vgg, VggOptions{.blocks = {1, 1}, .units = 8}, image),
      backbone("mobilenet_v3", mobilenet_v3, MobilenetV3Options{.large = false, .width = 0.1, .dropout = 0}, image),
      backbone("convnext", convnext, ConvnextOptions{.depths = {1, 1}, .widths = {4, 6}}, image),
      backbone("nasnet", nasnet, NasnetOptions{.filters = 96, .blocks = 1, .stem_filters = 4},
               sin(reshape(arange(8 * 32 * 32), {8, 32, 32, 1}) * 1.3)),
      backbone("vit", vit, VitOptions{.blocks = narrow}, image),
      backbone("mixer", mixer, MixerOptions{.width = 8, .depth = 1, .token_units = 4, .channel_units = 8}, image),
      backbone("lstm", lstm_classifier, LstmClassifierOptions{.units = 8, .layers = 1}, image),
      backbone("unet", unet, UnetOptions{.filters = {4, 6}}, image),
      backbone("autoencoder", autoencoder, AutoencoderOptions{.units = {12}, .code = 4}, image),
      backbone("vae", vae_result, VaeOptions{.filters = {3, 4}, .units = 6, .code = 3}, image),
      backbone("encoder", of_encoder, EncoderOptions{.vocabulary = 11, .positions = 6, .blocks = narrow}, tokens),
      backbone("gpt", of_gpt, GptOptions{.vocabulary = 11, .positions = 6, .blocks = narrow}, tokens)};
}

/// Features and a head of the user's own: two classes.
Model<Array, Array> with_own_head(const Features& features) {
  return Model<Array, Array>([features](Scope& s, const Array& x) {
    Array h = features(s["backbone"], x);
    while (h.ndim() > 2) h = mean(h, Axes{1});
    return dense(s["own"], h, {.units = 2});
  });
}

std::vector<std::string> paths(const Model<Array, Array>& model, const Array& x, const std::string& below = "") {
  std::vector<std::string> all;
  for (const Variable& v : model.variables(x)) all.push_back(below + v.path);
  return all;
}

}  // namespace

TEST_CASE("without a head a model has its other variables, below the scope it stands in") {
  for (const Backbone& b : backbones()) {
    CAPTURE(b.name);
    const auto whole =
        paths(Model<Array, Array>([&](Scope& s, const Array& x) { return b.whole(s, x); }), b.x, "backbone/");
    const auto inside = paths(with_own_head(b.features), b.x);
    std::size_t below = 0;
    for (const std::string& path : inside) {
      if (!path.starts_with("backbone/")) continue;
      ++below;
      CHECK(std::find(whole.begin(), whole.end(), path) != whole.end());
    }
    CHECK(below < whole.size());
    CHECK(below + 2 == inside.size());
  }
}

TEST_CASE("a backbone with a head of the user's own trains, with one meaning over shards") {
  const Array y = remainder(arange(8), 2);
  for (const Backbone& b : backbones()) {
    CAPTURE(b.name);
    const auto model = with_own_head(b.features);
    const auto loss = [model](const Tree& w, const Tree& state, const Batch& batch) {
      auto [logits, next] = model.stateless_call(w, state, batch.x, true, {.rows = batch.weight});
      return WithAux{softmax_cross_entropy(logits, batch.y, batch.weight), next, {}};
    };
    const auto [w, state] = model.init(random::key(1), b.x);
    const Batch batch{b.x, y, {}};
    double first = 0, last = 0;
    for (const std::int64_t shards : {1, 2, 4}) {
      CAPTURE(shards);
      const auto step = data_parallel(loss, optim::adam(1e-2), {.shards = shards});
      TrainState now = step.init(w, state);
      for (int i = 0; i < 6; ++i) {
        auto [next, logs] = step(std::move(now), batch);
        now = std::move(next);
        const double value = logs.at("loss").item<float>();
        if (i > 0) {
          last = value;
          continue;
        }
        if (shards == 1) first = value;
        CHECK(value == doctest::Approx(first).epsilon(1e-4));
      }
      CHECK(last < first);
    }
  }
}

TEST_CASE("backbones are the same under jit, remat, vmap and scan, and close in bfloat16") {
  for (const Backbone& b : backbones()) {
    CAPTURE(b.name);
    const auto model = with_own_head(b.features);
    const auto [w, state] = model.init(random::key(1), b.x);
    const auto call = [model, w = w, state = state](const Array& x) {
      return model.stateless_call(w, state, x, false).first;
    };
    const Array expected = call(b.x);
    const auto difference = [&](const Array& y) { return max(abs(y - expected)).item<float>(); };
    CHECK(difference(jit(call)(b.x)) < 1e-5);
    CHECK(difference(jit(remat(call))(b.x)) < 1e-5);
    const auto one = [&](const Array& row) { return squeeze(call(expand_dims(row, 0)), Axes{0}); };
    CHECK(difference(jit(vmap(one))(b.x)) < 1e-4);
    const auto step = [&](const Array& carry, const Array& row) { return std::pair(carry, one(row)); };
    CHECK(difference(scan(step, zeros({}), b.x).second) < 1e-4);
    CHECK(difference(jit(call, {.precision = Precision::bfloat16})(b.x)) < 0.1);
  }
}

TEST_CASE("published sizes") {
  const auto weights = [](const Features& features, const Array& x) {
    std::int64_t count = 0;
    const Model model([&](Scope& s, const Array& v) { return features(s, v); });
    for (const Variable& v : model.variables(x)) count += v.trainable ? v.type.size() : 0;
    return count;
  };
  using namespace models;
  const Array large = zeros({1, 224, 224, 3}), digit = zeros({1, 28, 28, 1}), token = zeros({1, 4}, int32);
  const auto of = [](auto model, auto options) {
    return Features([=](const Scope& s, const Array& x) { return model(s, x, options); });
  };
  CHECK(weights(of(lenet, LenetOptions{}), digit) ==
        61'706);  // LeNet-5 with whole connections, as in PyTorch's tutorial
  CHECK(weights(of(resnet18, ResnetOptions{.classes = 1000, .large_images = true}), large) ==
        11'689'512);  // torchvision
  CHECK(weights(of(resnet50, ResnetOptions{.classes = 1000, .large_images = true}), large) ==
        25'557'032);  // torchvision
  CHECK(weights(of(resnet50, ResnetOptions{.large_images = true, .head = false}), large) == 23'508'032);
  const MixerOptions b16{
      .classes = 1000, .patch = 16, .width = 768, .depth = 12, .token_units = 384, .channel_units = 3072};
  CHECK(weights(of(mixer, b16), large) == 59'880'472);  // timm's mixer_b16_224
  const TransformerOptions base{.width = 768, .depth = 12, .heads = 12};
  // torchvision's vit_b_16 without its class token and that one's position: 86'567'656 - 2 * 768
  CHECK(weights(of(vit, VitOptions{.classes = 1000, .patch = 16, .blocks = base}), large) == 86'566'120);
  const auto bert = [](const EncoderOptions& o) {
    return Features([o](const Scope& s, const Array& x) { return encoder(s, x, o); });
  };
  CHECK(weights(bert({.head = false}), token) == 108'891'648);  // bert-base-uncased without its pooling layer
  CHECK(weights(bert({}), token) == 109'483'778);               // of sequences, two classes
  const Features gpt2 = [=](const Scope& s, const Array& x) {
    return gpt(s, x, {.vocabulary = 50257, .positions = 1024, .blocks = base});
  };
  CHECK(weights(gpt2, token) == 124'439'808 + 50257 * 768);                   // GPT-2's, with a head of its own
  CHECK(weights(of(autoencoder, AutoencoderOptions{}), digit) == 2'837'314);  // 784-1000-500-250-30 and back
  const auto of_vae = [](const Scope& s, const Array& x, const VaeOptions& o) { return vae(s, x, o).result; };
  CHECK(weights(of(of_vae, VaeOptions{.head = false}), digit) == 69'076);  // Keras' example: encoder,
  CHECK(weights(of(of_vae, VaeOptions{}), digit) == 69'076 + 65'089);      // and decoder
  CHECK(weights(of(unet, UnetOptions{}), zeros({1, 16, 16, 3})) ==
        31'037'698);  // Pytorch-UNet of milesial, not bilinear
}

TEST_CASE("a variational autoencoder draws its code in training alone, and its divergence is that of the paper") {
  using models::VaeResult;
  const Array x = sin(reshape(arange(4 * 64), {4, 8, 8, 1}) * 1.3);
  const Model model([](Scope& s, const Array& v) { return models::vae(s, v, {.filters = {3, 4}, .units = 6}); });
  const auto [w, state] = model.init(random::key(1), x);
  const auto [still, same] = model.stateless_call(w, state, x, false);
  const auto [drawn, next] = model.stateless_call(w, state, x, true);
  CHECK(still.result.shape() == x.shape());
  CHECK(drawn.mean.to_bytes() == still.mean.to_bytes());
  CHECK(drawn.result.to_bytes() != still.result.to_bytes());
  CHECK(next.at("rng").array().to_bytes() != state.at("rng").array().to_bytes());
  const VaeResult known{x, full({2, 3}, 0.5), full({2, 3}, -1.0)};
  CHECK(models::vae_divergence(known).item<float>() == doctest::Approx(-1.5 * (1 - 1 - 0.25 - std::exp(-1.0))));
}

TEST_CASE("inputs and options that do not fit are refused") {
  const auto on = [](const Features& features, const Array& x) {
    static_cast<void>(Model([&](Scope& s, const Array& v) { return features(s, v); }).variables(x));
  };
  const Array image = zeros({1, 6, 6, 3});
  using namespace models;
  tests::expect_error<ValueError>(
      [&] {
        on([](const Scope& s, const Array& x) { return resnet(s, x, {.blocks = {1, 2}}); }, image);
      },
      "filters has 3 numbers, blocks 2");
  tests::expect_error<ShapeError>([&] { on([](const Scope& s, const Array& x) { return mixer(s, x); }, image); },
                                  "[mixer] the input is f32[1,6,6,3] and patches have size 4");
  tests::expect_error<ShapeError>(
      [&] {
        on([](const Scope& s, const Array& x) { return unet(s, x, {.filters = {2, 2, 2}}); }, image);
      },
      "height and width are multiples of 4");
  tests::expect_error<ShapeError>([&] { on([](const Scope& s, const Array& x) { return vae(s, x).result; }, image); },
                                  "height and width are multiples of 4");
  tests::expect_error<ShapeError>([&] { on([](const Scope& s, const Array& x) { return encoder(s, x); }, image); },
                                  "give integer tokens [N, T] of at most 512 positions");
}
