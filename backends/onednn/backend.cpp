#include "backends/onednn/backend.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/backend/block_pool.h>
#include <lockstep/backend/isa.h>
#include <lockstep/error.h>

#include "backends/cpu/attention/one_query.h"
#include "backends/cpu/convolutions/winograd.h"
#include "backends/cpu/thread_settings.h"
#include "backends/onednn/kernels.h"
#include "backends/onednn/library.h"
#include "backends/onednn/widened.h"

namespace lockstep::backend {

namespace onednn {

namespace {

using Maker = std::unique_ptr<Kernel> (*)(const KernelRequest&);

std::unique_ptr<Kernel> make_sum_of_kernel_grads(const KernelRequest& request) {
  return cpu::make_sum_of_kernel_grads(request, bfloat16_products());
}
std::unique_ptr<Kernel> make_winograd_of_shards(const KernelRequest& request) {
  return cpu::make_winograd_of_shards(request, bfloat16_products());
}

/// Null for ops that oneDNN has no part in.
Maker maker_of(std::string_view op) {
  if (op == "dot_general") return make_dot_general;
  if (op == "sum_of_products") return make_sum_of_products;
  if (op == "conv" || op == "conv_input_grad" || op == "conv_kernel_grad") return make_convolution;
  if (op == "sum_of_kernel_grads") return make_sum_of_kernel_grads;
  if (op == "conv_of_shards" || op == "conv_input_grad_of_shards") return make_winograd_of_shards;
  return op == "attention" || op == "attention_grad" ? make_attention : nullptr;
}

class OnednnBackend final : public Backend {
 public:
  OnednnBackend() {
    // Before the first primitive, else oneDNN has settled on what the processor has.
    if (max_isa() == Isa::avx2) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    is_refused_ = usable_isa() != Isa::none && !may_execute_written_pages();
    usable_ = usable_isa() != Isa::none && !is_refused_;
  }

  std::string_view name() const override { return "onednn"; }

  std::string version() const override {
    const dnnl::version_t* version = dnnl::version();
    return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch) + (is_refused_ ? " (no executable pages)" : "");
  }

  std::string notice() const override {
    if (!is_refused_) return {};
    return "the system lets no page be executed that was written; products and convolutions run without oneDNN";
  }

  bool supports(DeviceKind kind) const override { return usable_ && kind == DeviceKind::cpu; }

  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const override {
    if (!supports(request.device.kind)) return nullptr;
    return guarded<std::unique_ptr<Kernel>>(request, [&]() -> std::unique_ptr<Kernel> {
      const Maker make = maker_of(request.op);
      return make == nullptr ? nullptr : make(request);
    });
  }

  std::vector<std::unique_ptr<Kernel>> make_parts(const KernelRequest& request, const Kernel& whole) const override {
    return guarded<std::vector<std::unique_ptr<Kernel>>>(request, [&]() -> std::vector<std::unique_ptr<Kernel>> {
      if (request.op == "dot_general") return make_dot_general_parts(request, whole);
      if (request.op == "sum_of_products") return make_sum_of_products_parts(request);
      if (request.op == "sum_of_kernel_grads") return cpu::make_sum_of_kernel_grads_parts(request, bfloat16_products());
      if (request.op == "conv" || request.op == "conv_input_grad") return make_convolution_parts(request, whole);
      if (request.op == "attention") return make_attention_parts(request, whole);
      return {};
    });
  }

  std::shared_ptr<Buffer> allocate(std::size_t /*nbytes*/, Device /*device*/) const override { return nullptr; }

  std::shared_ptr<void> enter_thread() const override {
    return std::allocate_shared<cpu::ThreadSettings>(BlockAllocator<cpu::ThreadSettings>());
  }

 private:
  template <class Made, class Make>
  static Made guarded(const KernelRequest& request, const Make& make) {
    const cpu::ThreadSettings one_thread;
    try {
      return make();
    } catch (const dnnl::error& error) {
      throw BackendError("onednn backend: no kernel of " + std::string(request.op) +
                         " could be made: " + std::string(error.what()) + "; set LOCKSTEP_MAX_ISA=none to go without");
    }
  }

  bool is_refused_ = false, usable_ = false;
};

}  // namespace

}  // namespace onednn

std::shared_ptr<const Backend> make_onednn_backend() { return std::make_shared<onednn::OnednnBackend>(); }

}  // namespace lockstep::backend
