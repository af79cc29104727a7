#include "libtorch_models.h"

#include <functional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

namespace {

namespace nn = torch::nn;
using torch::Tensor;

nn::Conv2d conv(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                bool bias) {
  return nn::Conv2d(nn::Conv2dOptions(in, out, kernel).stride(stride).padding(padding).bias(bias));
}

nn::LayerNorm layer_norm(std::int64_t width) { return nn::LayerNorm(nn::LayerNormOptions({width})); }

class Mlp : public Model {
 public:
  Mlp(const std::vector<std::int64_t>& widths, std::function<Tensor(const Tensor&)> activation)
      : activation_(std::move(activation)) {
    for (std::size_t i = 0; i + 2 < widths.size(); ++i) {
      layers_.push_back(register_module("dense_" + std::to_string(i), nn::Linear(widths[i], widths[i + 1])));
    }
    head_ = register_module("head", nn::Linear(widths.end()[-2], widths.back()));
  }

  Tensor forward(const Tensor& x) override {
    Tensor h = x;
    for (nn::Linear& layer : layers_) h = activation_(layer(h));
    return head_(h);
  }

 private:
  std::function<Tensor(const Tensor&)> activation_;
  std::vector<nn::Linear> layers_;
  nn::Linear head_{nullptr};
};

class Cnn : public Model {
 public:
  Tensor forward(const Tensor& x) override {
    Tensor h = torch::max_pool2d(torch::relu(conv_0_(x)), 2);
    h = torch::max_pool2d(torch::relu(conv_1_(h)), 2);
    return head_(torch::relu(dense_(h.flatten(1))));
  }

 private:
  nn::Conv2d conv_0_ = register_module("conv_0", conv(1, 32, 3, 1, 1, true));
  nn::Conv2d conv_1_ = register_module("conv_1", conv(32, 64, 3, 1, 1, true));
  nn::Linear dense_ = register_module("dense", nn::Linear(3136, 128));
  nn::Linear head_ = register_module("head", nn::Linear(128, 10));
};

class ConvNorm : public Model {
 public:
  ConvNorm(std::int64_t in, std::int64_t out, std::int64_t kernel = 3, std::int64_t stride = 1)
      : conv_(register_module("conv", conv(in, out, kernel, stride, kernel / 2, false))),
        norm_(register_module("norm", nn::BatchNorm2d(out))) {}

  Tensor forward(const Tensor& x) override { return norm_(conv_(x)); }

 private:
  nn::Conv2d conv_;
  nn::BatchNorm2d norm_;
};

class Residual : public Model {
 public:
  Residual(std::int64_t in, std::int64_t out, std::int64_t stride)
      : first_(register_module("first", std::make_shared<ConvNorm>(in, out, 3, stride))),
        second_(register_module("second", std::make_shared<ConvNorm>(out, out))) {
    if (in != out || stride != 1) {
      shortcut_ = register_module("shortcut", std::make_shared<ConvNorm>(in, out, 1, stride));
    }
  }

  Tensor forward(const Tensor& x) override {
    const Tensor h = second_->forward(torch::relu(first_->forward(x)));
    return torch::relu(h + (shortcut_ ? shortcut_->forward(x) : x));
  }

 private:
  std::shared_ptr<ConvNorm> first_, second_, shortcut_;
};

class ResNet : public Model {
 public:
  ResNet(const std::vector<std::int64_t>& filters, int blocks)
      : stem_(register_module("stem", std::make_shared<ConvNorm>(3, filters[0]))) {
    std::int64_t channels = filters[0];
    for (std::size_t stage = 0; stage < filters.size(); ++stage) {
      const auto scope = register_module("stage_" + std::to_string(stage), std::make_shared<nn::Module>());
      for (int block = 0; block < blocks; ++block) {
        const auto layer = std::make_shared<Residual>(channels, filters[stage], stage > 0 && block == 0 ? 2 : 1);
        blocks_.push_back(scope->register_module("block_" + std::to_string(block), layer));
        channels = filters[stage];
      }
    }
    head_ = register_module("head", nn::Linear(channels, 10));
  }

  Tensor forward(const Tensor& x) override {
    Tensor h = torch::relu(stem_->forward(x));
    for (const auto& block : blocks_) h = block->forward(h);
    return head_(h.mean({2, 3}));
  }

 private:
  std::shared_ptr<ConvNorm> stem_;
  std::vector<std::shared_ptr<Residual>> blocks_;
  nn::Linear head_{nullptr};
};

class Attention : public Model {
 public:
  Attention(std::int64_t width, std::int64_t heads, bool causal)
      : qkv_(register_module("qkv", nn::Linear(width, 3 * width))),
        out_(register_module("out", nn::Linear(width, width))),
        heads_(heads),
        causal_(causal) {}

  Tensor forward(const Tensor& x) override {
    const std::int64_t rows = x.size(0), length = x.size(1), width = x.size(2);
    const Tensor joint = qkv_(x).view({rows, length, 3, heads_, width / heads_}).permute({2, 0, 3, 1, 4});
    const Tensor y = at::scaled_dot_product_attention(joint[0], joint[1], joint[2], {}, 0.0, causal_);
    return out_(y.transpose(1, 2).reshape({rows, length, width}));
  }

 private:
  nn::Linear qkv_, out_;
  std::int64_t heads_;
  bool causal_;
};

class Block : public Model {
 public:
  Block(std::int64_t width, std::int64_t heads, bool causal)
      : norm_0_(register_module("norm_0", layer_norm(width))),
        norm_1_(register_module("norm_1", layer_norm(width))),
        dense_0_(register_module("dense_0", nn::Linear(width, 4 * width))),
        dense_1_(register_module("dense_1", nn::Linear(4 * width, width))),
        attention_(register_module("attention", std::make_shared<Attention>(width, heads, causal))) {}

  Tensor forward(const Tensor& x) override {
    const Tensor h = x + attention_->forward(norm_0_(x));
    return h + dense_1_(torch::gelu(dense_0_(norm_1_(h)), "tanh"));
  }

 private:
  nn::LayerNorm norm_0_, norm_1_;
  nn::Linear dense_0_, dense_1_;
  std::shared_ptr<Attention> attention_;
};

/// A language model where `causal`, else a classifier of images in patches of 4 x 4.
class Transformer : public Model {
 public:
  Transformer(std::int64_t width, int depth, std::int64_t heads, std::int64_t length, bool causal, std::int64_t classes)
      : positions_(register_parameter("positions", torch::empty({length, width}))),
        norm_(register_module("norm", layer_norm(width))),
        head_(register_module("head", nn::Linear(nn::LinearOptions(width, classes).bias(!causal)))) {
    for (int i = 0; i < depth; ++i) {
      const auto block = std::make_shared<Block>(width, heads, causal);
      blocks_.push_back(register_module("block_" + std::to_string(i), block));
    }
    if (causal) {
      tokens_ = register_module("tokens", nn::Embedding(classes, width));
    } else {
      patches_ = register_module("patches", conv(3, width, 4, 4, 0, true));
    }
  }

  Tensor forward(const Tensor& x) override {
    Tensor h = (tokens_ ? tokens_(x) : patches_(x).flatten(2).transpose(1, 2)) + positions_;
    for (const auto& block : blocks_) h = block->forward(h);
    h = norm_(h);
    return head_(tokens_ ? h : h.mean(1));
  }

 private:
  Tensor positions_;
  nn::LayerNorm norm_;
  nn::Linear head_;
  std::vector<std::shared_ptr<Block>> blocks_;
  nn::Embedding tokens_{nullptr};
  nn::Conv2d patches_{nullptr};
};

class Lstm : public Model {
 public:
  Tensor forward(const Tensor& x) override { return head_(std::get<0>(lstm_(x)).select(1, -1)); }

 private:
  nn::LSTM lstm_ = register_module("lstm", nn::LSTM(nn::LSTMOptions(32, 256).num_layers(2).batch_first(true)));
  nn::Linear head_ = register_module("head", nn::Linear(256, 10));
};

/// A parameter's name from its path in the file.
std::string name_of(const std::string& path) {
  static const std::map<std::string, std::string> lstm = {
      {"kernel", "weight_ih"}, {"recurrent_kernel", "weight_hh"}, {"bias", "bias_ih"}};
  static const std::map<std::string, std::string> others = {
      {"kernel", "weight"}, {"gamma", "weight"}, {"embeddings", "weight"}, {"beta", "bias"}};
  const std::size_t cut = path.rfind('/');
  if (cut == std::string::npos) return path;
  std::string scope = path.substr(0, cut);
  const std::string leaf = path.substr(cut + 1);
  if (scope.starts_with("lstm_")) return "lstm." + lstm.at(leaf) + "_l" + scope.substr(5);
  for (char& c : scope) c = c == '/' ? '.' : c;
  return scope + "." + (others.contains(leaf) ? others.at(leaf) : leaf);
}

/// A value of the file as PyTorch keeps it.
Tensor turned(const std::string& path, const Tensor& value, const std::string& workload) {
  if (workload == "cnn" && path == "dense/kernel") {  // Rows of the flattened image are [h, w, c] in the file.
    return value.view({7, 7, 64, 128}).permute({3, 2, 0, 1}).reshape({128, 3136});
  }
  if (value.dim() == 4) return value.permute({3, 2, 0, 1});
  return value.dim() == 2 && path.ends_with("kernel") ? value.t() : value;
}

}  // namespace

std::shared_ptr<Model> make_model(const std::string& workload) {
  const auto tanh = [](const Tensor& x) { return torch::tanh(x); };
  const auto relu = [](const Tensor& x) { return torch::relu(x); };
  if (workload == "tiny") return std::make_shared<Mlp>(std::vector<std::int64_t>{8, 32, 10}, tanh);
  if (workload == "mlp") return std::make_shared<Mlp>(std::vector<std::int64_t>{784, 512, 512, 10}, relu);
  if (workload == "cnn") return std::make_shared<Cnn>();
  if (workload == "resnet20") return std::make_shared<ResNet>(std::vector<std::int64_t>{16, 32, 64}, 3);
  if (workload == "resnet18") return std::make_shared<ResNet>(std::vector<std::int64_t>{64, 128, 256, 512}, 2);
  if (workload == "vit") return std::make_shared<Transformer>(192, 6, 3, 64, false, 10);
  if (workload == "lstm") return std::make_shared<Lstm>();
  if (workload == "gpt") return std::make_shared<Transformer>(256, 4, 4, 128, true, 512);
  throw std::runtime_error("no workload '" + workload + "'");
}

void load(Model& model, const std::map<std::string, torch::Tensor>& weights, const std::string& workload) {
  const torch::NoGradGuard guard;
  std::map<std::string, torch::Tensor> parameters;
  for (const auto& parameter : model.named_parameters()) parameters.emplace(parameter.key(), parameter.value());
  for (const auto& [path, value] : weights) {
    const auto found = parameters.find(name_of(path));
    if (found == parameters.end()) throw std::runtime_error("no parameter for " + path);
    found->second.copy_(turned(path, value, workload));
    parameters.erase(found);
  }
  for (auto& [name, left] : parameters) {
    if (name.find(".bias_hh") == std::string::npos) throw std::runtime_error(name + " has no weights in the file");
    left.zero_();
    left.requires_grad_(false);
  }
}
