#include "engine/ops/reference_backend.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <lockstep/backend/aligned_memory.h>

#include "engine/ops/primitives.h"

namespace lockstep::ops {

namespace {

class HeapBuffer final : public backend::Buffer {
 public:
  explicit HeapBuffer(std::size_t nbytes)
      : data_(static_cast<std::byte*>(backend::allocate_aligned(nbytes == 0 ? 1 : nbytes))), nbytes_(nbytes) {}

  void* data() const override { return data_.get(); }
  std::size_t nbytes() const override { return nbytes_; }
  Device device() const override { return {}; }

 private:
  struct Free {
    void operator()(std::byte* data) const { backend::free_aligned(data); }
  };

  std::unique_ptr<std::byte, Free> data_;
  std::size_t nbytes_;
};

class ReferenceKernel final : public backend::Kernel {
 public:
  ReferenceKernel(const ir::Primitive& primitive, const backend::KernelRequest& request)
      : primitive_(&primitive),
        attrs_(request.attrs),
        inputs_(request.inputs.begin(), request.inputs.end()),
        outputs_(request.outputs.begin(), request.outputs.end()) {}

  void run(const backend::KernelArguments& arguments) const override {
    std::vector<ir::ReferenceArray> inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const auto* data = static_cast<const std::byte*>(arguments.inputs[i].data);
      inputs.push_back(ir::reference_from_bytes(inputs_[i], {data, static_cast<std::size_t>(inputs_[i].nbytes())}));
    }
    std::vector<ir::ReferenceArray> outputs;
    for (const ArrayType& type : outputs_) outputs.push_back(ir::reference_zeros(type));
    primitive_->reference({inputs, attrs_, outputs});
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const std::vector<std::byte> bytes = ir::reference_to_bytes(outputs[i]);
      if (!bytes.empty()) std::memcpy(arguments.outputs[i].data, bytes.data(), bytes.size());
    }
  }

 private:
  const ir::Primitive* primitive_;
  Attrs attrs_;
  std::vector<ArrayType> inputs_;
  std::vector<ArrayType> outputs_;
};

class ReferenceBackend final : public backend::Backend {
 public:
  std::string_view name() const override { return "reference"; }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }

  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) const override {
    const ir::Primitive* primitive = find_primitive(request.op);
    if (primitive == nullptr || primitive->traits.collective || !primitive->reference) return nullptr;
    return std::make_unique<ReferenceKernel>(*primitive, request);
  }

  std::shared_ptr<backend::Buffer> allocate(std::size_t nbytes, Device device) const override {
    return supports(device.kind) ? std::make_shared<HeapBuffer>(nbytes) : nullptr;
  }
};

}  // namespace

std::shared_ptr<const backend::Backend> reference_backend() {
  static const std::shared_ptr<const backend::Backend> backend = std::make_shared<ReferenceBackend>();
  return backend;
}

}  // namespace lockstep::ops
