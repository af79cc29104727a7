#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

// Models beside what PyTorch makes of the same layers and weights (model_values.py), in float64.

using namespace lockstep;

namespace {

const std::filesystem::path values_file =
    std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden" / "models" / "values.txt";

std::map<std::string, std::vector<double>> stored_models() {
  std::map<std::string, std::vector<double>> all;
  std::ifstream file(values_file);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    for (double value = 0; words >> value;) all[name].push_back(value);
  }
  return all;
}

Array wave(const Shape& shape, double phase) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(0.7 * static_cast<double>(i) + phase);
  return reshape(array(values), Axes(shape.begin(), shape.end()));
}

Array sine_weight(const Variable& v) {
  int phase = 0;
  for (const char c : v.path) phase += c;
  const Array values = 0.3 * wave(v.type.shape, phase % 97);
  return v.path.ends_with("gamma") || v.path.ends_with("moving_variance") ? values + 1.0 : values;
}

double largest_logit_difference(const Model<Array, Array>& model, const Array& x, const std::vector<double>& expected) {
  Tree trainable, state;
  for (const Variable& v : model.variables(x)) {
    if (v.path.ends_with("rng")) continue;
    Tree& to = v.trainable ? trainable : state;
    to = to.with(v.path, sine_weight(v));
  }
  const std::vector<double> got = model.stateless_call(trainable, state, x, false).first.to_vector<double>();
  REQUIRE(got.size() == expected.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i) most = std::max(most, std::abs(got[i] - expected[i]));
  return most;
}

struct ModelCase {
  const char* name;
  Array x;
  std::function<Array(Scope&, const Array&)> model;
};

std::vector<ModelCase> model_cases() {
  const models::EncoderOptions encoder{
      .classes = 3, .vocabulary = 11, .positions = 9, .blocks = {.width = 8, .depth = 2, .heads = 2}, .dtype = float64};
  const Array tokens = remainder(reshape(arange(14) * 7, {2, 7}), 11);
  const Array types = reshape(remainder(floor_divide(arange(14), 2), 2), {2, 7});
  const Array lengths = array(std::vector<std::int32_t>{7, 4});
  return {
      {"lenet", wave({2, 12, 12, 1}, 1), [](Scope& s, const Array& x) { return models::lenet(s, x, {.classes = 3}); }},
      {"resnet", wave({2, 32, 32, 3}, 1),
       [](Scope& s, const Array& x) {
         return models::resnet(
             s, x, {.classes = 3, .filters = {3, 4}, .blocks = {2, 1}, .bottleneck = true, .large_images = true});
       }},
      {"mixer", wave({2, 8, 8, 3}, 1),
       [](Scope& s, const Array& x) {
         return models::mixer(s, x,
                              {.classes = 3, .patch = 4, .width = 6, .depth = 2, .token_units = 5, .channel_units = 7});
       }},
      {"encoder", tokens, [=](Scope& s, const Array& x) { return models::encoder(s, x, encoder, types, lengths); }},
      {"unet", wave({2, 8, 8, 2}, 1),
       [](Scope& s, const Array& x) {
         return models::unet(s, x, {.filters = {4, 6, 5}});
       }},
      {"autoencoder", wave({2, 4, 4, 1}, 1),
       [](Scope& s, const Array& x) {
         return models::autoencoder(s, x, {.units = {6, 5}, .code = 3});
       }},
      {"vae", wave({2, 8, 8, 1}, 1), [](Scope& s, const Array& x) {
         return models::vae(s, x, {.filters = {3, 4}, .units = 5, .code = 2}).result;
       }}};
}

}  // namespace

TEST_CASE("models give what PyTorch makes of the same layers and weights") {
  const auto expected = stored_models();
  for (const ModelCase& c : model_cases()) {
    CAPTURE(c.name);
    CHECK(largest_logit_difference(Model<Array, Array>(c.model), c.x, expected.at(c.name)) < 1e-10);
  }
}
