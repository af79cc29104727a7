#pragma once

#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/ops/reference_backend.h"

// The reference backend with kernels that take any strides, work in place and need scratch memory, and with fresh memory
// filled with rubbish: what is planned wrongly shows in the results.
namespace lockstep::tests {

class PermissiveKernel final : public Kernel {
 public:
  explicit PermissiveKernel(std::unique_ptr<Kernel> inner) : inner_(std::move(inner)) {}

  bool accepts_strided() const override { return true; }
  bool accepts_in_place(int /*input*/) const override { return true; }
  std::size_t scratch_bytes() const override { return scratch; }
  void run(const KernelArguments& arguments) const override {
    std::memset(arguments.scratch, 0xA5, scratch);
    std::vector<std::vector<std::byte>> copies;
    std::vector<ArrayView> inputs;
    for (const ArrayView& view : arguments.inputs) {
      copies.push_back(elements(view));
      inputs.push_back(contiguous_view(copies.back().data(), view.dtype, view.shape));
    }
    inner_->run({inputs, arguments.outputs, nullptr});
  }

 private:
  static constexpr std::size_t scratch = 192;

  static std::vector<std::byte> elements(const ArrayView& view) {
    const std::size_t width = size_of(view.dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(view.shape.size()) * width);
    for (std::int64_t i = 0; i < view.shape.size(); ++i) {
      std::int64_t rest = i;
      std::int64_t offset = 0;
      for (int d = view.shape.rank() - 1; d >= 0; --d) {
        offset += rest % view.shape[d] * view.strides[static_cast<std::size_t>(d)];
        rest /= view.shape[d];
      }
      std::memcpy(bytes.data() + static_cast<std::size_t>(i) * width,
                  static_cast<const std::byte*>(view.data) + offset * static_cast<std::int64_t>(width), width);
    }
    return bytes;
  }

  std::unique_ptr<Kernel> inner_;
};

class PermissiveBackend final : public Backend {
 public:
  std::string_view name() const override { return "permissive"; }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }
  std::unique_ptr<Kernel> make_kernel(const KernelRequest& request) const override {
    auto inner = ops::reference_backend()->make_kernel(request);
    return inner == nullptr ? nullptr : std::make_unique<PermissiveKernel>(std::move(inner));
  }
  std::shared_ptr<Buffer> allocate(std::size_t nbytes, Device device) const override {
    auto buffer = ops::reference_backend()->allocate(nbytes, device);
    if (buffer != nullptr) std::memset(buffer->data(), 0xCB, nbytes);
    return buffer;
  }
};

inline std::shared_ptr<const Backend> permissive_backend() {
  static const std::shared_ptr<const Backend> backend = std::make_shared<PermissiveBackend>();
  return backend;
}

}  // namespace lockstep::tests
