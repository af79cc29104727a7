// The module of ATen's kernels.

#include "backends/modules/module.h"

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>

#include <lockstep/backend/isa.h>
#include <lockstep/error.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/thread_settings.h"

namespace lockstep::backend::aten {

namespace {

/// Whoever has loaded this; the same for each backend that is made.
std::atomic<const modules::Host*> library = nullptr;

class AtenBackend final : public Backend {
 public:
  AtenBackend() {
    // ATen's own oneDNN makes machine code too; its other loops do not.
    if (!may_execute_written_pages()) at::globalContext().setUserEnabledMkldnn(false);
  }

  std::string_view name() const override { return "aten"; }
  std::string version() const override { return TORCH_VERSION; }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }

  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const override {
    const KernelMaker maker = find_maker(request);
    return maker == nullptr ? nullptr : maker(request);
  }

  std::vector<std::unique_ptr<Kernel>> make_parts(const KernelRequest& /*request*/,
                                                  const Kernel& whole) const override {
    const auto* cut = dynamic_cast<const CutKernel*>(&whole);
    return cut == nullptr ? std::vector<std::unique_ptr<Kernel>>() : cut->parts();
  }

  std::shared_ptr<Buffer> allocate(std::size_t /*nbytes*/, Device /*device*/) const override { return nullptr; }
};

}  // namespace

void fail(const std::string& text) {
  library.load()->fail(text);
  throw BackendError(text);  // not reached: it has thrown
}

void keep_thread_settings() {
  thread_local bool is_asked = false;
  if (is_asked) return;
  is_asked = true;
  const cpu::ThreadSettings before;
  at::get_num_threads();
}

}  // namespace lockstep::backend::aten

extern "C" LOCKSTEP_API const lockstep::backend::modules::Module lockstep_module;

const lockstep::backend::modules::Module lockstep_module = {
    .build = LOCKSTEP_MODULE_BUILD,
    .make_backend =
        [](const lockstep::backend::modules::Host& host) -> std::shared_ptr<const lockstep::backend::Backend> {
      lockstep::backend::aten::library = &host;
      return std::make_shared<lockstep::backend::aten::AtenBackend>();
    }};
