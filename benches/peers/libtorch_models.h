#pragma once

#include <map>
#include <memory>
#include <string>

#include <torch/torch.h>

/// The models of benches/workloads.cpp as torch::nn modules. Names of parameters are paths in the file of weights.
class Model : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
};

/// Throws std::runtime_error where there is none of that name.
std::shared_ptr<Model> make_model(const std::string& workload);

/// Kernels are [in, out] and [h, w, in, out] in the file; torch::nn::LSTM has a second bias, which stays zero and is not
/// trained. Throws std::runtime_error where a parameter and the file do not match.
void load(Model& model, const std::map<std::string, torch::Tensor>& weights, const std::string& workload);
