#pragma once

// The backends of plain loops and of ATen as one, which has a kernel for every op and makes no machine code.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/backend.h>

#include "backends/aten/backend.h"
#include "backends/cpu/backend.h"

namespace lockstep::tests {

class CpuAndAten final : public backend::Backend {
 public:
  std::string_view name() const override { return "cpu and aten"; }
  std::string version() const override { return aten_->version(); }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) const override {
    auto kernel = cpu_->make_kernel(request);
    return kernel != nullptr ? std::move(kernel) : aten_->make_kernel(request);
  }
  std::vector<std::unique_ptr<backend::Kernel>> make_parts(const backend::KernelRequest& request,
                                                           const backend::Kernel& whole) const override {
    auto parts = cpu_->make_parts(request, whole);
    return parts.empty() ? aten_->make_parts(request, whole) : std::move(parts);
  }
  std::shared_ptr<backend::Buffer> allocate(std::size_t nbytes, Device device) const override {
    return cpu_->allocate(nbytes, device);
  }
  std::shared_ptr<void> enter_thread() const override { return aten_->enter_thread(); }

 private:
  std::shared_ptr<const backend::Backend> cpu_ = backend::make_cpu_backend();
  std::shared_ptr<const backend::Backend> aten_ = backend::make_aten_backend();
};

}  // namespace lockstep::tests
