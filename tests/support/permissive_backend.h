#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/ops/grouped.h"
#include "engine/ops/primitives.h"
#include "engine/ops/reference_backend.h"

// The reference backend with kernels that take any strides, work in place and need scratch memory, that cuts the work of
// every op into parts, and with fresh memory filled with rubbish: what is planned wrongly shows in the results.
namespace lockstep::tests {

class PermissiveKernel final : public backend::Kernel {
 public:
  explicit PermissiveKernel(std::unique_ptr<backend::Kernel> inner) : inner_(std::move(inner)) {}

  bool accepts_strided() const override { return true; }
  bool accepts_in_place(int /*input*/) const override { return true; }
  std::size_t scratch_bytes() const override { return scratch; }
  void run(const backend::KernelArguments& arguments) const override {
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
    const std::int64_t size = view.shape.size();
    const int rank = view.shape.rank();
    std::vector<std::byte> bytes(static_cast<std::size_t>(size) * width);
    if (size == 0) return bytes;
    // Row by row along the last dimension.
    const std::int64_t row = rank == 0 ? 1 : view.shape[rank - 1];
    const std::int64_t stride = rank == 0 ? 1 : view.strides[static_cast<std::size_t>(rank - 1)];
    std::byte* to = bytes.data();
    for (std::int64_t i = 0; i < size / row; ++i) {
      std::int64_t rest = i;
      std::int64_t offset = 0;
      for (int d = rank - 2; d >= 0; --d) {
        offset += rest % view.shape[d] * view.strides[static_cast<std::size_t>(d)];
        rest /= view.shape[d];
      }
      const std::byte* from = static_cast<const std::byte*>(view.data) + offset * static_cast<std::int64_t>(width);
      const std::int64_t together = stride == 1 ? row : 1;
      for (std::int64_t k = 0; k < row; k += together) {
        const std::size_t count = static_cast<std::size_t>(together) * width;
        std::memcpy(to, from + k * stride * static_cast<std::int64_t>(width), count);
        to += count;
      }
    }
    return bytes;
  }

  std::unique_ptr<backend::Kernel> inner_;
};

/// A product for each shard by the reference, added up in pairs, these in pairs, and so on.
class SumOfProducts final : public backend::Kernel {
 public:
  explicit SumOfProducts(std::unique_ptr<backend::Kernel> product) : product_(std::move(product)) {}

  void run(const backend::KernelArguments& arguments) const override {
    const ArrayView& output = arguments.outputs[0];
    const auto size = static_cast<std::size_t>(output.shape.size());
    std::vector<std::vector<float>> sums;
    for (std::size_t i = 0; i < arguments.inputs.size(); i += 2) {
      sums.emplace_back(size);
      const ArrayView view = contiguous_view(sums.back().data(), output.dtype, output.shape);
      product_->run({arguments.inputs.subspan(i, 2), {&view, 1}, nullptr});
    }
    for (; sums.size() > 1; sums.resize(sums.size() / 2)) {
      for (std::size_t i = 0; i < sums.size() / 2; ++i) {
        for (std::size_t k = 0; k < size; ++k) sums[i][k] = sums[2 * i][k] + sums[2 * i + 1][k];
      }
    }
    std::memcpy(output.data, sums[0].data(), size * sizeof(float));
  }

 private:
  std::unique_ptr<backend::Kernel> product_;
};

/// A convolution for each shard by the reference, all with the window that comes last.
class ConvolutionsOfShards final : public backend::Kernel {
 public:
  explicit ConvolutionsOfShards(std::unique_ptr<backend::Kernel> convolution) : convolution_(std::move(convolution)) {}

  void run(const backend::KernelArguments& arguments) const override {
    for (std::size_t i = 0; i < arguments.outputs.size(); ++i) {
      const std::array<ArrayView, 2> inputs = {arguments.inputs[i], arguments.inputs.back()};
      convolution_->run({inputs, arguments.outputs.subspan(i, 1), nullptr});
    }
  }

 private:
  std::unique_ptr<backend::Kernel> convolution_;
};

/// One of the parts of an op's work: some bytes of its result.
class PartKernel final : public backend::Kernel {
 public:
  PartKernel(std::unique_ptr<backend::Kernel> whole, std::size_t part, std::size_t parts)
      : whole_(std::move(whole)), part_(part), parts_(parts) {}

  void run(const backend::KernelArguments& arguments) const override {
    const ArrayView& output = arguments.outputs[0];
    const std::size_t bytes = static_cast<std::size_t>(output.shape.size()) * size_of(output.dtype);
    std::vector<std::byte> result(bytes);
    const ArrayView view = contiguous_view(result.data(), output.dtype, output.shape);
    whole_->run({arguments.inputs, {&view, 1}, arguments.scratch});
    const std::size_t first = bytes * part_ / parts_, last = bytes * (part_ + 1) / parts_;
    if (first < last) std::memcpy(static_cast<std::byte*>(output.data) + first, result.data() + first, last - first);
  }
  std::size_t scratch_bytes() const override { return whole_->scratch_bytes(); }

 private:
  std::unique_ptr<backend::Kernel> whole_;
  std::size_t part_, parts_;
};

class PermissiveBackend final : public backend::Backend {
 public:
  std::string_view name() const override { return "permissive"; }
  bool supports(DeviceKind kind) const override { return kind == DeviceKind::cpu; }
  std::unique_ptr<backend::Kernel> make_kernel(const backend::KernelRequest& request) const override {
    if (const auto grouped = ops::grouped_kernels(request)) {
      auto one = ops::reference_backend()->make_kernel(grouped->first(request));
      if (request.op == ops::find_primitive(grouped->op)->grouped.sum)
        return std::make_unique<SumOfProducts>(std::move(one));
      return std::make_unique<ConvolutionsOfShards>(std::move(one));
    }
    auto inner = ops::reference_backend()->make_kernel(request);
    return inner == nullptr ? nullptr : std::make_unique<PermissiveKernel>(std::move(inner));
  }
  std::vector<std::unique_ptr<backend::Kernel>> make_parts(const backend::KernelRequest& request,
                                                           const backend::Kernel& /*whole*/) const override {
    std::vector<std::unique_ptr<backend::Kernel>> result;
    constexpr std::size_t parts = 3;
    if (request.outputs.size() != 1 || request.inputs.empty()) return result;
    for (std::size_t part = 0; part < parts; ++part) {
      result.push_back(std::make_unique<PartKernel>(make_kernel(request), part, parts));
    }
    return result;
  }
  std::shared_ptr<backend::Buffer> allocate(std::size_t nbytes, Device device) const override {
    auto buffer = ops::reference_backend()->allocate(nbytes, device);
    if (buffer != nullptr) std::memset(buffer->data(), 0xCB, nbytes);
    return buffer;
  }
};

inline std::shared_ptr<const backend::Backend> permissive_backend() {
  static const std::shared_ptr<const backend::Backend> backend = std::make_shared<PermissiveBackend>();
  return backend;
}

}  // namespace lockstep::tests
