#include "engine/ir/backend_chain.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep::ir {

namespace {

class BackendChain final : public Backend {
 public:
  explicit BackendChain(std::vector<std::shared_ptr<const Backend>> backends) : backends_(std::move(backends)) {
    for (const auto& backend : backends_) name_ += (name_.empty() ? "" : ", ") + std::string(backend->name());
  }

  std::string_view name() const override { return name_; }

  bool supports(DeviceKind kind) const override {
    return std::any_of(backends_.begin(), backends_.end(),
                       [kind](const auto& backend) { return backend->supports(kind); });
  }

  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const override {
    for (const auto& backend : backends_) {
      if (auto kernel = backend->make_kernel(request)) return kernel;
    }
    return nullptr;
  }

  bool fuses() const override {
    return std::any_of(backends_.begin(), backends_.end(), [](const auto& backend) { return backend->fuses(); });
  }

  std::shared_ptr<Buffer> allocate(std::size_t nbytes, Device device) const override {
    for (const auto& backend : backends_) {
      if (auto buffer = backend->allocate(nbytes, device)) return buffer;
    }
    return nullptr;
  }

  std::shared_ptr<void> enter_thread() const override { return std::make_shared<EnteredThread>(backends_); }

 private:
  std::vector<std::shared_ptr<const Backend>> backends_;
  std::string name_;
};

}  // namespace

std::shared_ptr<const Backend> backend_chain(std::vector<std::shared_ptr<const Backend>> backends) {
  return std::make_shared<BackendChain>(std::move(backends));
}

EnteredThread::EnteredThread(std::span<const std::shared_ptr<const Backend>> backends) {
  for (const auto& backend : backends) {
    // A token may own what is to be done, and no object.
    if (auto token = backend->enter_thread(); token.use_count() > 0) tokens_.push_back(std::move(token));
  }
}

EnteredThread::~EnteredThread() {
  while (!tokens_.empty()) tokens_.pop_back();
}

}  // namespace lockstep::ir
