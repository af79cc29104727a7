// Convolutions by ATen.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <c10/util/strides.h>

#include "backends/aten/kernel_makers.h"
#include "backends/aten/tensor_kernel.h"
#include "backends/aten/tensors.h"

namespace lockstep::backend::aten::kernels {

namespace {

/// A convolution as ATen takes it: two or three spatial dimensions (a single one gets a companion of extent 1) and equal
/// padding on both sides, what is left of it being a padding of x beforehand.
struct Convolution {
  Dims strides, dilation, padding;
  Dims extra;  ///< As constant_pad_nd takes it: last dimension first, low and high.
  std::int64_t groups = 1;
  bool padded = false;

  explicit Convolution(const Attrs& attrs)
      : strides(attrs.get<Dims>("strides")),
        dilation(attrs.get<Dims>("dilation")),
        groups(attrs.get<std::int64_t>("groups")) {
    std::vector<Dims> pairs = attrs.get<std::vector<Dims>>("padding");
    if (strides.size() == 1) {
      strides.insert(strides.begin(), 1);
      dilation.insert(dilation.begin(), 1);
      pairs.insert(pairs.begin(), Dims{0, 0});
    }
    for (const Dims& pair : pairs) padding.push_back(std::min(pair[0], pair[1]));
    for (std::size_t d = pairs.size(); d-- > 0;) {
      extra.push_back(pairs[d][0] - padding[d]);
      extra.push_back(pairs[d][1] - padding[d]);
    }
    padded = std::any_of(extra.begin(), extra.end(), [](std::int64_t n) { return n > 0; });
  }
};

/// A row-major array [.., spatial.., ..] with its dimensions in ATen's order: `front`, then the spatial ones.
at::Tensor reordered(const ArrayView& view, const std::array<int, 2>& front, int first_spatial, int spatial) {
  Dims sizes, strides;
  const auto add = [&](int d) {
    sizes.push_back(view.shape[d]);
    strides.push_back(view.strides[static_cast<std::size_t>(d)]);
  };
  add(front[0]);
  add(front[1]);
  if (spatial == 1) {
    sizes.push_back(1);
    strides.push_back(view.shape[first_spatial] * view.strides[static_cast<std::size_t>(first_spatial)]);
  }
  for (int d = first_spatial; d < first_spatial + spatial; ++d) add(d);
  return tensor_at(view.data, scalar_type(view.dtype), sizes, strides);
}

/// [N, spatial..., C] as [N, C, spatial...].
at::Tensor image(const ArrayView& view) {
  const int last = view.shape.rank() - 1;
  return reordered(view, {0, last}, 1, last - 1);
}

/// [window..., C/groups, O] as [O, C/groups, window...].
at::Tensor filter(const ArrayView& view) {
  const int rank = view.shape.rank();
  return reordered(view, {rank - 1, rank - 2}, 0, rank - 2);
}

/// 16-bit floats are convolved as float32: not every processor's library has them, and none gains accuracy.
at::Tensor widened(const at::Tensor& x) { return x.element_size() < 4 ? x.to(at::kFloat) : x; }

/// One channel lies in memory as channels last and as channels first; said to be first. The library below has wrong values
/// for some that are said to be last (AVX-512: several images, a last extent of 1 after steps of more, a window of several
/// places).
at::Tensor of_one_layout(const at::Tensor& x) {
  if (x.size(1) != 1 || !x.is_contiguous()) return x;
  return x.as_strided(x.sizes(), c10::contiguous_strides(x.sizes()));
}

at::Tensor pad_image(const Convolution& conv, const at::Tensor& x) {
  return of_one_layout(conv.padded ? at::constant_pad_nd(x, conv.extra) : x);
}

/// The part of a padded image that the extra padding surrounds.
at::Tensor crop_image(const Convolution& conv, at::Tensor x, const at::Tensor& like) {
  for (std::size_t i = 0; i < conv.extra.size() / 2; ++i) {
    const std::int64_t dim = like.dim() - 1 - static_cast<std::int64_t>(i);
    x = x.narrow(dim, conv.extra[2 * i], like.size(dim));
  }
  return x;
}

/// Gradient of the input or of the kernel; the operand that is asked for stands in with its shape only.
at::Tensor conv_gradient(const Convolution& conv, const at::Tensor& y, const at::Tensor& x, const at::Tensor& kernel,
                         bool of_input) {
  const Dims none(conv.strides.size(), 0);
  const auto gradients = at::convolution_backward(y, x, kernel, std::nullopt, conv.strides, conv.padding, conv.dilation,
                                                  false, none, conv.groups, {of_input, !of_input, false});
  return of_input ? std::get<0>(gradients) : std::get<1>(gradients);
}

void run_conv(const Convolution& conv, const KernelArguments& arguments) {
  const at::Tensor x = pad_image(conv, widened(image(arguments.inputs[0])));
  const at::Tensor kernel = widened(filter(arguments.inputs[1]));
  const Dims none(conv.strides.size(), 0);
  image(arguments.outputs[0])
      .copy_(at::convolution(x, kernel, std::nullopt, conv.strides, conv.padding, conv.dilation, false, none,
                             conv.groups));
}

void run_input_grad(const Convolution& conv, const KernelArguments& arguments) {
  const at::Tensor y = of_one_layout(widened(image(arguments.inputs[0])));
  const at::Tensor kernel = widened(filter(arguments.inputs[1]));
  at::Tensor out = image(arguments.outputs[0]);
  const at::Tensor x = pad_image(conv, widened(out));
  out.copy_(crop_image(conv, conv_gradient(conv, y, x, kernel, true), out));
}

/// Of a kernel of one place, in place of a strided gradient: the places of x that it meets side by side. The library
/// below writes beyond its memory where there are few channels (oneDNN issue 6035).
at::Tensor places_met(const Convolution& conv, const at::Tensor& x, const at::Tensor& y) {
  Dims around;
  for (std::size_t d = conv.padding.size(); d-- > 0;) around.insert(around.end(), 2, conv.padding[d]);
  at::Tensor met = at::constant_pad_nd(x, around);
  for (std::size_t d = 0; d < conv.strides.size(); ++d) {
    const auto dim = static_cast<std::int64_t>(d) + 2;
    met = met.slice(dim, 0, (y.size(dim) - 1) * conv.strides[d] + 1, conv.strides[d]);
  }
  return met.contiguous(x.dim() == 4 ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::ChannelsLast3d);
}

void run_kernel_grad(const Convolution& conv, const KernelArguments& arguments) {
  at::Tensor x = pad_image(conv, widened(image(arguments.inputs[0])));
  const at::Tensor y = of_one_layout(widened(image(arguments.inputs[1])));
  at::Tensor out = filter(arguments.outputs[0]);
  const bool is_strided = std::any_of(conv.strides.begin(), conv.strides.end(), [](std::int64_t n) { return n > 1; });
  if (is_strided && out.size(0) * out.size(1) == out.numel()) {
    Convolution dense = conv;
    dense.strides.assign(conv.strides.size(), 1);
    dense.padding.assign(conv.padding.size(), 0);
    x = places_met(conv, x, y);
    out.copy_(conv_gradient(dense, y, x, at::empty(out.sizes(), y.options()), false));
    return;
  }
  // ATen gives the gradient its kernel's layout, and not every algorithm takes any: a contiguous one stands in.
  out.copy_(conv_gradient(conv, y, x, at::empty(out.sizes(), y.options()), false));
}

using RunConvolution = void (*)(const Convolution&, const KernelArguments&);

std::unique_ptr<Kernel> make_convolution(const KernelRequest& request, RunConvolution run) {
  const int spatial = request.inputs[0].shape.rank() - 2;
  if (request.attrs.has("sum_blocks") || spatial < 1 || spatial > 3) return nullptr;
  return make_tensor_kernel(
      request, [run, conv = Convolution(request.attrs)](const KernelArguments& arguments) { run(conv, arguments); });
}

}  // namespace

std::unique_ptr<Kernel> conv(const KernelRequest& request) { return make_convolution(request, run_conv); }
std::unique_ptr<Kernel> conv_input_grad(const KernelRequest& request) {
  return make_convolution(request, run_input_grad);
}
std::unique_ptr<Kernel> conv_kernel_grad(const KernelRequest& request) {
  return make_convolution(request, run_kernel_grad);
}

}  // namespace lockstep::backend::aten::kernels
