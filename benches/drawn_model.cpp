#include "drawn_model.h"

#include <fstream>
#include <functional>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

namespace lockstep::benches {

namespace {

using nlohmann::json;

Array normalised(Scope& scope, const Array& x, const std::string& kind) {
  if (kind == "batch") return batch_norm(scope["norm"], x, {.momentum = 0.9, .epsilon = 1e-5});
  if (kind == "layer") return layer_norm(scope["norm"], x, {.epsilon = 1e-5});
  return x;
}

Array activated(const Array& x, const std::string& kind) {
  static const std::map<std::string, std::function<Array(const Array&)>> functions = {
      {"relu", [](const Array& h) { return relu(h); }},
      {"gelu", [](const Array& h) { return gelu(h); }},
      {"tanh", [](const Array& h) { return tanh(h); }},
      {"silu", [](const Array& h) { return silu(h); }},
  };
  return functions.at(kind)(x);
}

/// A norm takes over what a bias would do.
Array linear(Scope& scope, const Array& x, const json& layer, bool use_bias) {
  if (layer.contains("units")) return dense(scope["dense"], x, {.units = layer["units"], .use_bias = use_bias});
  const std::int64_t kernel = layer["kernel"], stride = layer["stride"], dilation = layer["dilation"];
  return conv2d(scope["conv"], x,
                {.filters = layer["filters"],
                 .kernel = {kernel, kernel},
                 .strides = {stride, stride},
                 .padding = Padding::half,
                 .dilation = {dilation, dilation},
                 .groups = layer["groups"],
                 .use_bias = use_bias});
}

}  // namespace

Workload read_drawn_model(const std::string& name, const std::filesystem::path& file) {
  std::ifstream in(file);
  const json drawn = json::parse(in);
  const auto model = [layers = drawn["layers"]](Scope& scope, const Array& x) {
    Array h = x;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const json& layer = layers[i];
      const std::string norm = layer["norm"];
      Scope inner = scope["layer_" + std::to_string(i)];
      if (layer.contains("units") && h.ndim() == 4) h = global_avg_pool2d(h);
      h = activated(normalised(inner, linear(inner, h, layer, norm.empty()), norm), layer["activation"]);
    }
    return dense(scope["head"], h.ndim() == 4 ? global_avg_pool2d(h) : h, {.units = 10});
  };
  Shape shape{drawn["rows"].get<std::int64_t>()};
  for (const json& extent : drawn["input"]) shape.append(extent);
  return {name, Model(std::function<Array(Scope&, const Array&)>(model)), {float32, shape, {}}, 10, drawn["adamw"]};
}

}  // namespace lockstep::benches
