#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <ATen/ops/_fft_c2c.h>
#include <ATen/ops/_fft_c2r.h>
#include <ATen/ops/_fft_r2c.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"

namespace lockstep::backend::aten::kernels {

namespace {

constexpr std::int64_t unscaled = 0;
constexpr std::int64_t by_count = 2;

}  // namespace

std::unique_ptr<Kernel> fft(const KernelRequest& request) {
  const auto& kind = request.attrs.get<std::string>("kind");
  const auto& lengths = request.attrs.get<std::vector<std::int64_t>>("lengths");
  std::vector<std::int64_t> dims(lengths.size());
  std::iota(dims.begin(), dims.end(), request.inputs[0].shape.rank() - static_cast<std::int64_t>(lengths.size()));
  const auto make = [&](auto transform) {
    return make_tensor_kernel(request, [transform, dims](const KernelArguments& arguments) {
      if (arguments.outputs[0].shape.size() == 0) return;
      tensor_of(arguments.outputs[0]).copy_(transform(tensor_of(arguments.inputs[0]), dims));
    });
  };
  if (kind == "rfft") {
    return make([](const at::Tensor& x, at::IntArrayRef over) { return at::_fft_r2c(x, over, unscaled, true); });
  }
  if (kind == "irfft") {
    return make(
        [n = lengths.back()](const at::Tensor& x, at::IntArrayRef over) { return at::_fft_c2r(x, over, by_count, n); });
  }
  return make([forward = kind == "fft"](const at::Tensor& x, at::IntArrayRef over) {
    return at::_fft_c2c(x, over, forward ? unscaled : by_count, forward);
  });
}

}  // namespace lockstep::backend::aten::kernels
