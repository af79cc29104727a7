#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

// Which dtypes Keras' policies give to the variables and the results of layers: ours give the same.
namespace lockstep::tests {
namespace {

struct PolicyLine {
  std::string policy, layer, result, variables;
};

std::vector<PolicyLine> stored_policies() {
  std::ifstream file(std::filesystem::path(LOCKSTEP_TESTS_DIR) / "golden/layers/precision.txt");
  std::vector<PolicyLine> lines;
  for (std::string text; std::getline(file, text);) {
    if (text.starts_with("#")) continue;
    std::vector<std::string> parts;
    for (std::size_t at = 0; at != std::string::npos;) {
      const std::size_t bar = text.find(" | ", at);
      parts.push_back(text.substr(at, bar == std::string::npos ? bar : bar - at));
      at = bar == std::string::npos ? bar : bar + 3;
    }
    REQUIRE(parts.size() == 4);
    lines.push_back({parts[0], parts[1], parts[2], parts[3]});
  }
  return lines;
}

struct GivenLayer {
  Array x;
  Layer layer;
};

std::map<std::string, GivenLayer> policy_layers() {
  const Array images = ones({2, 6, 6, 4}), sequences = ones({2, 5, 4});
  using S = const Scope&;
  using X = const Array&;
  const ConvLayerOptions convolved{.filters = 3, .kernel = {3}, .padding = Padding::valid};
  return {
      {"dense", {ones({2, 4}), [](S s, X x) { return dense(s, x, {.units = 3}); }}},
      {"einsum_dense",
       {sequences,
        [](S s, X x) {
          return einsum_dense(s, x, {.equation = "btf,fg->btg", .extents = {{'g', 4}}, .bias_axes = "g"});
        }}},
      {"embedding", {zeros({2, 3}, int32), [](S s, X x) { return embedding(s, x, {.vocabulary = 8, .features = 4}); }}},
      {"conv", {sequences, [=](S s, X x) { return conv(s, x, convolved); }}},
      {"conv2d",
       {images,
        [](S s, X x) {
          return conv2d(s, x, {.filters = 3, .kernel = {3, 3}});
        }}},
      {"conv_transpose", {images, [=](S s, X x) { return conv_transpose(s, x, convolved); }}},
      {"depthwise_conv", {images, [=](S s, X x) { return depthwise_conv(s, x, convolved); }}},
      {"separable_conv", {images, [=](S s, X x) { return separable_conv(s, x, convolved); }}},
      {"batch_norm", {images, [](S s, X x) { return batch_norm(s, x); }}},
      {"layer_norm", {sequences, [](S s, X x) { return layer_norm(s, x); }}},
      {"group_norm", {images, [](S s, X x) { return group_norm(s, x, {.groups = 2}); }}},
      {"rms_norm", {sequences, [](S s, X x) { return rms_norm(s, x); }}},
      {"prelu", {sequences, [](S s, X x) { return prelu(s, x); }}},
      {"lstm", {sequences, [](S s, X x) { return lstm(s, x, {.units = 3}); }}},
      {"simple_rnn", {sequences, [](S s, X x) { return simple_rnn(s, x, {.units = 3}, {}).first; }}},
      {"multi_head_attention", {sequences, [](S s, X x) { return multi_head_attention(s, x, {.heads = 2}); }}},
  };
}

}  // namespace

TEST_CASE("the dtypes of Keras' policies: variables, results, in calls that train and that do not") {
  const auto known = policy_layers();
  const std::vector<PolicyLine> lines = stored_policies();
  CHECK(lines.size() == 5 * known.size());
  for (const PolicyLine& line : lines) {
    CAPTURE(line.policy);
    CAPTURE(line.layer);
    const GivenLayer& given = known.at(line.layer);
    DType result = bool_;
    const auto model = with_precision(Model<Array, Array>([&](Scope& s, const Array& x) {
                                        const Array y = given.layer(s["layer"], x);
                                        result = y.dtype();
                                        return y;
                                      }),
                                      line.policy);
    const auto [trainable, state] = model.init(random::key(0), given.x);
    for (const bool training : {false, true}) {
      const Array y = model.stateless_call(trainable, state, given.x, training).first;
      CHECK(name(result) == line.result);
      CHECK(y.dtype() == float32);
      CHECK(all(is_finite(y)).item<bool>());
    }
    std::istringstream words(line.variables);
    for (std::string variable, dtype; words >> variable >> dtype;) {
      if (dtype.ends_with(',')) dtype.pop_back();
      CAPTURE(variable);
      const std::string path = "layer/" + variable;
      const Tree& tree = trainable.contains(path) ? trainable : state;
      CHECK(name(tree.at(path).array().dtype()) == dtype);
    }
  }
}

}  // namespace lockstep::tests
