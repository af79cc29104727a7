#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/small_models.h"

using namespace lockstep;

namespace {

/// "path type" of every variable of one kind.
std::vector<std::string> listed(const Model<Array, Array>& model, bool trainable) {
  std::vector<std::string> lines;
  for (const Variable& v : model.variables(zeros({1, 28, 28, 1}))) {
    if (v.trainable == trainable) lines.push_back(v.path + " " + to_string(v.type));
  }
  return lines;
}

using Lines = std::vector<std::string>;

}  // namespace

TEST_CASE("cnn: conv 32, conv 64, dense 128, dense 10, BatchNorm without a bias before it, dropout") {
  const auto model = models::find("cnn");
  CHECK(listed(model, true) == Lines{"block_0/conv/kernel f32[3,3,1,32]", "block_0/norm/beta f32[32]",
                                     "block_0/norm/gamma f32[32]", "block_1/conv/kernel f32[3,3,32,64]",
                                     "block_1/norm/beta f32[64]", "block_1/norm/gamma f32[64]", "dense/bias f32[128]",
                                     "dense/kernel f32[3136,128]", "head/bias f32[10]", "head/kernel f32[128,10]"});
  CHECK(listed(model, false) == Lines{"block_0/norm/moving_mean f32[32]", "block_0/norm/moving_variance f32[32]",
                                      "block_1/norm/moving_mean f32[64]", "block_1/norm/moving_variance f32[64]",
                                      "dropout/rng u32[3]"});
}

TEST_CASE("mlp: 512, 512, 10 on flattened input") {
  const auto model = models::find("mlp");
  CHECK(listed(model, true) == Lines{"dense_0/bias f32[512]", "dense_0/kernel f32[784,512]", "dense_1/bias f32[512]",
                                     "dense_1/kernel f32[512,512]", "head/bias f32[10]", "head/kernel f32[512,10]"});
  CHECK(listed(model, false).empty());
}

TEST_CASE("models map images to class scores, in the input's dtype") {
  for (const std::string_view name : tests::small_models()) {
    for (const DType dtype : {float32, float64}) {
      const auto model = models::find(name);
      const Array x = ones({3, 28, 28, 1}, dtype);
      const auto [trainable, state] = model.init(random::key(0), x);
      const Array y = model.stateless_call(trainable, state, x, false).first;
      CHECK(to_string(y.type()) == to_string(ArrayType{dtype, {3, 10}, {}}));
      const std::vector<double> scores = convert(y, float64).to_vector<double>();
      CHECK(std::equal(scores.begin(), scores.begin() + 10, scores.begin() + 10));
    }
  }
}

TEST_CASE("options change classes, dropout and input size") {
  const Model model([](Scope& scope, const Array& x) { return models::cnn(scope, x, {.classes = 3, .dropout = 0}); });
  const Array x = ones({2, 8, 12, 3});
  const auto [trainable, state] = model.init(random::key(0), x);
  CHECK(trainable.at("dense/kernel").array().shape() == Shape{2 * 3 * 64, 128});
  CHECK(model.stateless_call(trainable, state, x, true).first.shape() == Shape{2, 3});
  const Model small([](Scope& scope, const Array& rows) { return models::mlp(scope, rows, {.classes = 2}); });
  CHECK(small.variables(x)[5].type.shape == Shape{512, 2});
}

TEST_CASE("a model by name takes classes and options by their names, and has its defaults else") {
  class Narrow final : public models::OptionsByName {
   public:
    std::int64_t integer(const std::string& name, std::int64_t otherwise) override {
      asked.push_back(name);
      return name == "units" ? 4 : otherwise;
    }
    Lines asked;
  };
  const Array x = zeros({1, 5});
  Narrow narrow;
  const std::vector<Variable> own = models::find("mlp", 3, narrow).variables(x);
  CHECK(narrow.asked == Lines{"units", "layers"});
  CHECK(own.size() == 6);
  CHECK(own[1].type.shape == Shape{5, 4});
  CHECK(own[5].type.shape == Shape{4, 3});
  CHECK(models::find("mlp").variables(x)[5].type.shape == Shape{512, 10});
}

TEST_CASE("the larger models have as many weights as those of the literature") {
  const auto weights = [](const auto& model, const Array& x) {
    std::int64_t count = 0;
    for (const Variable& v : model.variables(x)) count += v.trainable ? v.type.size() : 0;
    return count;
  };
  const Array image = zeros({1, 32, 32, 3});
  CHECK(weights(models::find("resnet20"), image) == 272'474);     // 269'722 and two projections
  CHECK(weights(models::find("resnet18"), image) == 11'173'962);  // torchvision's, with a 3x3 stem and 10 classes
  CHECK(weights(models::find("vit"), image) == 2'693'194);
  CHECK(weights(models::find("lstm"), zeros({1, 64, 32})) == 823'818);
  const Model gpt([](Scope& scope, const Array& tokens) { return models::gpt(scope, tokens); });
  CHECK(weights(gpt, zeros({1, 128}, int32)) == 3'454'464);
}

TEST_CASE("gpt sees no later token, vit and lstm see all of their input") {
  const Model gpt([](Scope& scope, const Array& tokens) {
    return models::gpt(scope, tokens, {.vocabulary = 11, .blocks = {.width = 8, .depth = 2, .heads = 2}});
  });
  const Array tokens = arange(6) + zeros({2, 6}, int32);
  const auto [weights, state] = gpt.init(random::key(1), tokens);
  const auto logits = [&, w = weights, s = state](const Array& t) { return gpt.stateless_call(w, s, t, false).first; };
  const Array changed = where(arange(6) == 3, 9, tokens);
  const Array same = all(logits(tokens) == logits(changed), Axes{2});
  CHECK(same.to_vector<bool>() == std::vector<bool>{true, true, true, false, false, false,  //
                                                    true, true, true, false, false, false});
  for (const char* name : {"vit", "lstm"}) {
    const auto model = models::find(name);
    const Array x = sin(reshape(arange(8 * 8), {1, 8, 8, 1}) * 1.5f);
    const auto [w, s] = model.init(random::key(2), x);
    const Array slope =
        grad([&, w = w, s = s](const Array& v) { return sum(square(model.stateless_call(w, s, v, true).first)); })(x);
    CHECK(all(slope != 0).item<bool>());
  }
}

TEST_CASE("what the models cannot take is refused") {
  const auto on = [](const char* name, const Array& x) { return models::find(name).variables(x); };
  tests::expect_error<ShapeError>([&] { static_cast<void>(on("vit", zeros({1, 30, 32, 3}))); }, "patches have size 4");
  tests::expect_error<ShapeError>([&] { static_cast<void>(on("lstm", zeros({4, 4}))); }, "give sequences [N, T, ...]");
  const Model gpt([](Scope& scope, const Array& tokens) { return models::gpt(scope, tokens); });
  tests::expect_error<ShapeError>(
      [&] {
        static_cast<void>(gpt.variables(zeros({4, 4})));
      },
      "give integer tokens [N, T]");
  // Fewer layers than none.
  const Array x = zeros({1, 8, 8, 1});
  const auto refuse = [&](const std::function<Array(const Scope&)>& make, const char* text) {
    const Model model([&](Scope& s, const Array&) { return make(s); });
    tests::expect_error<ValueError>([&] { static_cast<void>(model.variables(x)); }, text);
  };
  refuse([&](const Scope& s) { return models::mlp(s, x, {.layers = -1}); }, "[mlp] layers is -1; it must be at least");
  refuse([&](const Scope& s) { return models::lstm_classifier(s, x, {.layers = -2}); }, "layers is -2");
  refuse([&](const Scope& s) { return models::mixer(s, x, {.depth = -1}); }, "[mixer] depth is -1");
  refuse([&](const Scope& s) { return models::vit(s, x, {.blocks = {.depth = -1}}); }, "depth is -1");
  refuse([&](const Scope& s) { return models::resnet(s, x, {.blocks = {1, -1, 1}}); }, "[resnet] blocks is -1");
  refuse(
      [](const Scope& s) {
        return models::encoder(s, zeros({1, 4}, int32), {.blocks = {.depth = -1}});
      },
      "[encoder] depth is -1");
  tests::expect_error<ValueError>(
      [] { static_cast<void>(models::empty_cache(1, {.positions = 4, .blocks = {.depth = -1}})); }, "depth is -1");
}

TEST_CASE("an unknown model is refused, with the names there are") {
  tests::expect_error<ValueError>([&] { static_cast<void>(models::find("resnet")); },
                                  "no model 'resnet'; known are autoencoder, cnn, lenet,");
  tests::expect_error<ValueError>([&] { static_cast<void>(models::find("")); }, "known are autoencoder, cnn");
}
