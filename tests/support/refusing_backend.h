#pragma once

#include <cmath>
#include <memory>

#include <lockstep/error.h>

#include "engine/ops/reference_backend.h"

namespace lockstep::tests {

/// The reference backend, but log throws on negative numbers, and memory only if asked for.
class RefusingBackend final : public backend::Backend {
 public:
  explicit RefusingBackend(bool owns_memory = true) : owns_memory_(owns_memory) {}
  std::string_view name() const override { return "refusing"; }
  bool supports(DeviceKind) const override { return true; }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) const override {
    if (request.op == "log") return std::make_unique<RefusingLog>();
    return ops::reference_backend()->make_kernel(request);
  }
  std::shared_ptr<backend::Buffer> allocate(std::size_t nbytes, Device device) const override {
    return owns_memory_ ? ops::reference_backend()->allocate(nbytes, device) : nullptr;
  }

 private:
  class RefusingLog final : public backend::Kernel {
   public:
    void run(const backend::KernelArguments& arguments) const override {
      const float x = *static_cast<const float*>(arguments.inputs[0].data);
      if (x < 0) throw ValueError("log of -1");
      *static_cast<float*>(arguments.outputs[0].data) = std::log(x);
    }
  };
  bool owns_memory_;
};

}  // namespace lockstep::tests
