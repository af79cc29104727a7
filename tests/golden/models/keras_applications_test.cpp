#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>
#include <lockstep/vision.h>

#include "tests/support/spread.h"

// Classifiers of images against those of keras.applications in float64, with weights under Keras' names: keras_applications.py.

using namespace lockstep;
using tests::spread;

namespace {

std::map<std::string, std::vector<double>> stored_applications() {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/models/applications.txt");
  std::map<std::string, std::vector<double>> all;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (double value = 0; words >> value;) all[name].push_back(value);
  }
  return all;
}

Array application_weight(const Variable& v) {
  std::uint32_t seed = 0;
  for (const char c : v.path) seed = seed * 31 + static_cast<unsigned char>(c);
  std::vector<double> values = spread(v.type.size(), seed);
  double middle = 0, width = 0.1;
  if (v.path.ends_with("gamma") || v.path.ends_with("moving_variance")) {
    middle = 1;
  } else if (!v.path.ends_with("bias") && !v.path.ends_with("beta") && !v.path.ends_with("moving_mean")) {
    const Shape& shape = v.type.shape;
    const int ends = shape[shape.rank() - 1] == 1 ? 2 : 1;
    double fan = 1;
    for (int d = 0; d + ends < shape.rank(); ++d) fan *= static_cast<double>(shape[d]);
    width = std::sqrt(6 / fan);
  }
  for (double& value : values) value = middle + width * value;
  return reshape(array(values), Axes(v.type.shape.begin(), v.type.shape.end()));
}

struct Classifier {
  const char* name;
  std::int64_t size;
  std::function<Array(Scope&, const Array&)> model;
};

template <class Options>
Classifier classifier(const char* name, std::int64_t size, Array (*model)(const Scope&, const Array&, const Options&),
                      Options options) {
  options.classes = 5;
  return {name, size, [=](Scope& s, const Array& x) { return model(s, x, options); }};
}

}  // namespace

TEST_CASE("classifiers of images give the logits of keras.applications") {
  using namespace models;
  const std::vector<Classifier> cases = {
      classifier("convnext_tiny", 32, convnext, ConvnextOptions{}),
      classifier("densenet121", 33, densenet, DensenetOptions{}),
      classifier("efficientnet_b0", 37, efficientnet, EfficientnetOptions{}),
      classifier("efficientnet_v2_b0", 32, efficientnet_v2, EfficientnetV2Options{}),
      classifier("inception_resnet_v2", 76, inception_resnet_v2, InceptionResnetV2Options{}),
      classifier("inception_v3", 76, inception_v3, InceptionV3Options{}),
      classifier("mobilenet", 37, mobilenet, MobilenetOptions{.width = 0.5}),
      classifier("mobilenet_v2", 37, mobilenet_v2, MobilenetOptions{.width = 1.4}),
      classifier("mobilenet_v3_large", 37, mobilenet_v3, MobilenetV3Options{.width = 0.75}),
      classifier("mobilenet_v3_small", 40, mobilenet_v3, MobilenetV3Options{.large = false}),
      classifier("nasnet_mobile", 37, nasnet, NasnetOptions{}),
      classifier("resnet50_v2", 37, resnet_v2, ResnetV2Options{}),
      classifier("vgg16", 32, vgg, VggOptions{}),
      classifier("xception", 72, xception, XceptionOptions{}),
  };
  const auto expected = stored_applications();
  CHECK(expected.size() == cases.size());
  for (const Classifier& c : cases) {
    CAPTURE(c.name);
    REQUIRE(expected.contains(c.name));
    const Model<Array, Array> model(c.model);
    const Array x = reshape(array(spread(c.size * c.size * 3, 7)), {1, c.size, c.size, 3});
    Tree trainable, state;
    for (const Variable& v : model.variables(x)) {
      Tree& to = v.trainable ? trainable : state;
      to = to.with(v.path, v.path.ends_with("rng") ? zeros(v.type.shape, v.type.dtype) : application_weight(v));
    }
    const std::vector<double> got = model.stateless_call(trainable, state, x, false).first.to_vector<double>();
    const std::vector<double>& logits = expected.at(c.name);
    REQUIRE(got.size() == logits.size());
    double most = 0;
    for (const double value : logits) most = std::max(most, std::abs(value));
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(std::abs(got[i] - logits[i]) < 1e-10 * most);
  }
}
