#include "layer_workloads.h"

#include <cstdint>
#include <string>
#include <utility>

namespace lockstep::benches {

namespace {

using Block = Array (*)(Scope& scope, const std::string& number, const Array& x);

/// So many blocks, the mean over all but rows and channels, and a head.
Array stacked(Scope& scope, const Array& x, int blocks, Block block) {
  Array h = x;
  for (int i = 0; i < blocks; ++i) h = block(scope, std::to_string(i), h);
  return dense(scope["head"], global_avg_pool(h), {.units = 10});
}

Array group_norms(Scope& scope, const Array& x) {
  return stacked(scope, x, 3, [](Scope& s, const std::string& i, const Array& h) {
    const Array y = conv2d(s["conv_" + i], h, {.filters = 64, .use_bias = false});
    return relu(group_norm(s["norm_" + i], y, {.groups = 8}));
  });
}

Array instance_norms(Scope& scope, const Array& x) {
  return stacked(scope, x, 3, [](Scope& s, const std::string& i, const Array& h) {
    const Array y = conv2d(s["conv_" + i], h, {.filters = 64, .use_bias = false});
    return relu(instance_norm(s["norm_" + i], y));
  });
}

Array separable_convs(Scope& scope, const Array& x) {
  return stacked(scope, x, 3, [](Scope& s, const std::string& i, const Array& h) {
    return relu(separable_conv(s["conv_" + i], h, {.filters = 64}));
  });
}

Array conv_transposes(Scope& scope, const Array& x) {
  return stacked(scope, x, 2, [](Scope& s, const std::string& i, const Array& h) {
    return relu(conv_transpose(s["conv_" + i], h, {.filters = i == "0" ? 64 : 32, .kernel = {4}, .strides = {2}}));
  });
}

Array dilated_convs(Scope& scope, const Array& x) {
  return stacked(scope, x, 8, [](Scope& s, const std::string& i, const Array& h) {
    const std::int64_t apart = std::stoi(i) + 1;
    return relu(conv2d(s["conv_" + i], h, {.filters = 64, .dilation = {apart, apart}}));
  });
}

Array swiglus(Scope& scope, const Array& x) {
  return stacked(scope, x, 4, [](Scope& s, const std::string& i, const Array& h) {
    const Array gated = gated_dense(s["gate_" + i], rms_norm(s["norm_" + i], h), {.units = 512});
    return h + dense(s["down_" + i], gated, {.units = 256, .use_bias = false});
  });
}

Array grouped_attention(Scope& scope, const Array& x) {
  return stacked(scope, x, 4, [](Scope& s, const std::string& i, const Array& h) {
    return h + multi_head_attention(s["attention_" + i], rms_norm(s["norm_" + i], h),
                                    {.heads = 8, .is_causal = true, .use_bias = false, .kv_heads = 2, .rotary = true});
  });
}

Array grus(Scope& scope, const Array& x) {
  const Array h = gru(scope["gru_0"], x, {.units = 256}).first;
  return dense(scope["head"], gru(scope["gru_1"], h, {.units = 256}).second, {.units = 10});
}

struct LayerModel {
  std::string_view name;
  Array (*model)(Scope&, const Array&);
  ArrayType x;
};

const std::vector<LayerModel>& layer_models() {
  static const std::vector<LayerModel> models = {
      {"group_norm", group_norms, {float32, {32, 32, 32, 32}, {}}},
      {"instance_norm", instance_norms, {float32, {32, 32, 32, 32}, {}}},
      {"separable_conv", separable_convs, {float32, {32, 32, 32, 32}, {}}},
      {"conv_transpose", conv_transposes, {float32, {32, 8, 8, 64}, {}}},
      {"dilated_conv", dilated_convs, {float32, {16, 64, 64, 64}, {}}},
      {"swiglu", swiglus, {float32, {16, 128, 256}, {}}},
      {"grouped_attention", grouped_attention, {float32, {8, 128, 256}, {}}},
      {"gru", grus, {float32, {32, 64, 32}, {}}},
  };
  return models;
}

}  // namespace

const std::vector<std::string_view>& layer_workload_names() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> list;
    for (const LayerModel& m : layer_models()) list.push_back(m.name);
    return list;
  }();
  return names;
}

std::optional<Workload> find_layer_workload(std::string_view name) {
  for (const LayerModel& m : layer_models()) {
    if (m.name == name) return Workload{std::string(name), Model(m.model), m.x, 10, true};
  }
  return std::nullopt;
}

}  // namespace lockstep::benches
