#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/vision.h>

#include "tests/support/expect_error.h"

// Classifiers of images: sizes that were published, and what they refuse. Logits are in tests/golden/models.

using namespace lockstep;

namespace {

/// Of all variables, statistics too, as Keras counts.
std::int64_t weight_count(const Model<Array, Array>& model, std::int64_t size, const std::string& head) {
  std::int64_t count = 0;
  for (const Variable& v : model.variables(zeros({1, size, size, 3}))) {
    if (v.path.ends_with("rng")) continue;
    // Of 1000 classes in place of 10.
    count += v.path.starts_with(head) ? 100 * v.type.size() : v.type.size();
  }
  return count;
}

}  // namespace

TEST_CASE("classifiers of images have as many weights as Keras', of 1000 classes") {
  // Those of efficientnet without the 7 of Keras' layer that normalises pixels.
  const std::map<std::string_view, std::int64_t> published = {{"convnext_base", 88'591'464},
                                                              {"convnext_large", 197'767'336},
                                                              {"convnext_small", 50'223'688},
                                                              {"convnext_tiny", 28'589'128},
                                                              {"convnext_xlarge", 350'196'968},
                                                              {"densenet121", 8'062'504},
                                                              {"densenet169", 14'307'880},
                                                              {"densenet201", 20'242'984},
                                                              {"efficientnet_b0", 5'330'571 - 7},
                                                              {"efficientnet_b1", 7'856'239 - 7},
                                                              {"efficientnet_b2", 9'177'569 - 7},
                                                              {"efficientnet_b3", 12'320'535 - 7},
                                                              {"efficientnet_b4", 19'466'823 - 7},
                                                              {"efficientnet_b5", 30'562'527 - 7},
                                                              {"efficientnet_b6", 43'265'143 - 7},
                                                              {"efficientnet_b7", 66'658'687 - 7},
                                                              {"efficientnet_v2_b0", 7'200'312},
                                                              {"efficientnet_v2_b1", 8'212'124},
                                                              {"efficientnet_v2_b2", 10'178'374},
                                                              {"efficientnet_v2_b3", 14'467'622},
                                                              {"efficientnet_v2_s", 21'612'360},
                                                              {"efficientnet_v2_m", 54'431'388},
                                                              {"efficientnet_v2_l", 119'027'848},
                                                              {"inception_resnet_v2", 55'873'736},
                                                              {"inception_v3", 23'851'784},
                                                              {"mobilenet", 4'253'864},
                                                              {"mobilenet_v2", 3'538'984},
                                                              {"mobilenet_v3_large", 5'507'432},
                                                              {"mobilenet_v3_small", 2'554'968},
                                                              {"nasnet_large", 88'949'818},
                                                              {"nasnet_mobile", 5'326'716},
                                                              {"resnet50_v2", 25'613'800},
                                                              {"resnet101_v2", 44'675'560},
                                                              {"resnet152_v2", 60'380'648},
                                                              {"vgg16", 138'357'544},
                                                              {"vgg19", 143'667'240},
                                                              {"xception", 22'910'480}};
  for (const auto& [name, count] : published) {
    CAPTURE(name);
    // What is multiplied by places, in vgg alone, is counted of the published size.
    CHECK(weight_count(models::find_image_classifier(name), name.starts_with("vgg") ? 224 : 76, "head/") == count);
  }
  const models::ResnetOptions large{.classes = 1000, .large_images = true};
  const auto trained = [&](auto model) {
    std::int64_t count = 0;
    const Model own([&](Scope& s, const Array& x) { return model(s, x, large); });
    for (const Variable& v : own.variables(zeros({1, 64, 64, 3}))) count += v.trainable ? v.type.size() : 0;
    return count;
  };
  CHECK(trained(models::resnet101) == 44'549'160);  // torchvision
  CHECK(trained(models::resnet152) == 60'192'808);
}

TEST_CASE("a block leaves itself out of whole rows, in training alone") {
  const models::ConvnextOptions options{
      .depths = {1, 1}, .widths = {4, 4}, .drop_path = 0.5, .layer_scale = 1, .head = false};
  const Model model([&](Scope& s, const Array& x) { return models::convnext(s, x, options); });
  const Array row = sin(reshape(arange(8 * 8 * 3), {1, 8, 8, 3}) * 1.3);
  const Array x = broadcast_to(row, {64, 8, 8, 3});
  const auto [w, state] = model.init(random::key(1), x);
  const Array y = model.stateless_call(w, state, x, true).first;
  std::set<std::vector<float>> kinds;
  const std::vector<float> features = y.to_vector<float>();
  for (std::size_t i = 0; i < features.size(); i += 4) kinds.emplace(features.begin() + i, features.begin() + i + 4);
  CHECK(kinds.size() == 2);  // with the second block, which has the rate of 0.5, and without
  const std::vector<float> still = model.stateless_call(w, state, x, false).first.to_vector<float>();
  for (std::size_t i = 0; i < still.size(); ++i) CHECK(still[i] == still[i % 4]);
}

TEST_CASE("classifiers of images refuse what they cannot take") {
  const auto on = [](auto model, std::int64_t size) {
    static_cast<void>(
        Model([&](Scope& s, const Array& x) { return model(s, x); }).variables(zeros({1, size, size, 3})));
  };
  using namespace models;
  tests::expect_error<ShapeError>(
      [&] { on([](Scope& s, const Array& x) { return xception(s, x); }, 70); },
      "[xception] the input is f32[1,70,70,3]; give float images [N, H, W, C] of at least 71 x 71");
  tests::expect_error<ShapeError>(
      [&] { on([](Scope& s, const Array& x) { return vgg(s, x); }, 31); },
      "[vgg] the input is f32[1,31,31,3]; give float images [N, H, W, C] of at least 32 x 32");
  tests::expect_error<ShapeError>(
      [&] { on([](Scope& s, const Array& x) { return mobilenet(s, x); }, 28); },
      "[mobilenet] the input is f32[1,28,28,3]; give float images [N, H, W, C] of at least 32 x 32");
  const auto says = [&](const auto& model, const std::string& text) {
    tests::expect_error<ValueError>([&] { on(model, 32); }, text);
  };
  says([](Scope& s, const Array& x) { return efficientnet(s, x, {.size = 8}); },
       "size is 8; give 0 to 7, for B0 to B7");
  says([](Scope& s, const Array& x) { return mobilenet(s, x, {.width = 0}); }, "width is 0; give a number above 0");
  says([](Scope& s, const Array& x) { return convnext(s, x, {.depths = {1}}); },
       "there are 1 depths and 4 widths; give one of each for every stage");
  says([](Scope& s, const Array& x) { return densenet(s, x, {.growth = 0}); },
       "there are 4 stages, growth is 0; give a number of blocks for each stage");
  says([](Scope& s, const Array& x) { return nasnet(s, x, {.filters = 100}); },
       "[nasnet] filters is 100, blocks 4; give a multiple of 96, and 1 block or more");
  says([](Scope& s, const Array& x) { return resnet_v2(s, x, {.blocks = {}}); },
       "blocks is empty; give a number for each stage");
}
