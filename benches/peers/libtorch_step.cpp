// usage: libtorch_step FOLDER WORKLOAD. The training steps of benches/workloads.cpp by LibTorch's C++ front end, eager,
// images channels-last. What it says and hears is what protocol.py describes.

#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include "../memory.h"
#include "../protocol.h"
#include "libtorch_models.h"
#include "safetensors.h"

namespace {

using torch::Tensor;

Tensor channels_last_image(const Tensor& x) {
  return x.permute({0, 3, 1, 2}).contiguous(torch::MemoryFormat::ChannelsLast);
}

/// Everything that a step of a model needs.
class Timing {
 public:
  Timing(const std::filesystem::path& folder, const std::string& workload) : model_(make_model(workload)) {
    load(*model_, read_safetensors(folder / "weights" / "arrays.safetensors"), workload);
    const auto batches = read_safetensors(folder / "batches" / "arrays.safetensors");
    const Tensor &xs = batches.at("x"), &ys = batches.at("y");
    const bool images = xs.dim() == 5;
    if (images) to_channels_last();
    for (std::int64_t i = 0; i < xs.size(0); ++i) {
      const Tensor x = xs[i].is_floating_point() ? xs[i] : xs[i].to(torch::kLong);
      batches_.emplace_back(images ? channels_last_image(x) : x, ys[i].to(torch::kLong));
    }
    optimizer_ = make_optimizer(workload);
  }

  double step() {
    const auto& [x, y] = batches_[count_++ % batches_.size()];
    optimizer_->zero_grad();
    const Tensor logits = model_->forward(x);
    const Tensor loss = torch::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), y.reshape(-1));
    loss.backward();
    optimizer_->step();
    return loss.item<float>();
  }

 private:
  void to_channels_last() {
    const torch::NoGradGuard guard;
    for (Tensor& parameter : model_->parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(torch::MemoryFormat::ChannelsLast));
    }
  }

  std::unique_ptr<torch::optim::Optimizer> make_optimizer(const std::string& workload) const {
    std::vector<Tensor> trained;
    for (const Tensor& parameter : model_->parameters()) {
      if (parameter.requires_grad()) trained.push_back(parameter);
    }
    if (workload == "cnn" || workload.starts_with("resnet")) {
      return std::make_unique<torch::optim::SGD>(trained, torch::optim::SGDOptions(0.05).momentum(0.9));
    }
    return std::make_unique<torch::optim::AdamW>(trained, torch::optim::AdamWOptions(1e-3).weight_decay(1e-2));
  }

  std::shared_ptr<Model> model_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<std::pair<Tensor, Tensor>> batches_;
  std::size_t count_ = 0;
};

std::function<double()> adam_step(const std::filesystem::path& folder) {
  Tensor w = read_safetensors(folder / "weights" / "arrays.safetensors").at("w").requires_grad_();
  w.mutable_grad() = read_safetensors(folder / "batches" / "arrays.safetensors").at("x")[0];
  const auto optimizer = std::make_shared<torch::optim::Adam>(std::vector<Tensor>{w}, torch::optim::AdamOptions(1e-3));
  return [w, optimizer] {
    optimizer->step();
    return w.detach()[0].item<float>();
  };
}

std::function<double()> make_step(const std::filesystem::path& folder, const std::string& workload) {
  if (workload == "adam10m") return adam_step(folder);
  const auto timing = std::make_shared<Timing>(folder, workload);
  return [timing] { return timing->step(); };
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: libtorch_step FOLDER WORKLOAD\n");
    return 2;
  }
  try {
    const double memory_before = lockstep::benches::resident_mib();
    const std::function<double()> step = make_step(std::filesystem::path(argv[1]) / argv[2], argv[2]);
    lockstep::benches::make_first_steps(step, memory_before, {{"libtorch", TORCH_VERSION}});
    lockstep::benches::make_timed_steps(step);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "libtorch_step: %s\n", error.what());
    return 2;
  }
}
