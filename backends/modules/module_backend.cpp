// The light part of a backend whose kernels are in a module.

#include "backends/modules/module_backend.h"

#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/backend/block_pool.h>
#include <lockstep/error.h>

#include "backends/cpu/thread_settings.h"
#include "backends/modules/shared_object.h"

namespace lockstep::backend::modules {

namespace {

const Host host = {.fail = [](const std::string& text) { throw BackendError(text); }};

class ModuleBackend final : public Backend {
 public:
  explicit ModuleBackend(Description description)
      : description_(std::move(description)), path_(module_path(description_.file)) {}

  std::string_view name() const override { return description_.name; }
  std::string version() const override { return description_.version; }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }

  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const override {
    if (!supports(request.device.kind) || !offers(request)) return nullptr;
    return loaded(request.op).make_kernel(request);
  }

  std::vector<std::unique_ptr<Kernel>> make_parts(const KernelRequest& request, const Kernel& whole) const override {
    return loaded(request.op).make_parts(request, whole);
  }

  std::shared_ptr<Buffer> allocate(std::size_t /*nbytes*/, Device /*device*/) const override { return nullptr; }

  std::shared_ptr<void> enter_thread() const override {
    return std::allocate_shared<cpu::ThreadSettings>(BlockAllocator<cpu::ThreadSettings>());
  }

 private:
  bool offers(const KernelRequest& request) const {
    const auto found = description_.ops.find(request.op);
    return found != description_.ops.end() && !request.inputs.empty() && found->second(request.inputs[0].dtype);
  }

  const Backend& loaded(std::string_view op) const {
    const std::lock_guard lock(mutex_);
    if (module_ == nullptr) {
      try {
        module_ = load();
      } catch (const std::exception& error) {
        throw BackendError(std::string(op) + ": its kernel is in the module of the " + description_.name +
                           " backend, " + path_.string() + ", which does not load: " + error.what() +
                           "; install that file again, from the same build as the library");
      }
    }
    return *module_;
  }

  std::shared_ptr<const Backend> load() const {
    // A library may set what it likes for the thread that loads it.
    const cpu::ThreadSettings settings;
    const auto* const module = static_cast<const Module*>(load_symbol(path_, "lockstep_module"));
    if (std::string_view(module->build) != LOCKSTEP_MODULE_BUILD) {
      throw std::runtime_error("it belongs to the build \"" + std::string(module->build) +
                               "\", this library to \"" LOCKSTEP_MODULE_BUILD "\"");
    }
    return module->make_backend(host);
  }

  Description description_;
  std::filesystem::path path_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Backend> module_;
};

}  // namespace

std::shared_ptr<const Backend> make_module_backend(Description description) {
  return std::make_shared<ModuleBackend>(std::move(description));
}

}  // namespace lockstep::backend::modules
