#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <oneapi/dnnl/dnnl.hpp>

#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/convolution_geometry.h"
#include "backends/onednn/kernels.h"
#include "backends/onednn/parts.h"
#include "backends/onednn/window_product.h"
#include "backends/onednn/winograd.h"

namespace lockstep::backends::onednn {

namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;

/// [N, spatial..., C] as oneDNN orders it: N, C, spatial.
Desc image(const Shape& shape, dnnl::memory::data_type type) {
  const std::vector<std::int64_t> row_major = row_major_strides(shape);
  Dims extents = {shape[0], shape.dim(-1)};
  Dims strides = {row_major[0], row_major.back()};
  for (int d = 1; d < shape.rank() - 1; ++d) {
    extents.push_back(shape[d]);
    strides.push_back(row_major[static_cast<std::size_t>(d)]);
  }
  return {extents, type, strides};
}

/// [window..., C/groups, O] as oneDNN orders it: groups, O/groups, C/groups, window.
Desc filter(const ConvolutionGeometry& geometry, dnnl::memory::data_type type, bool any_layout) {
  const Shape& shape = geometry.kernel;
  const std::vector<std::int64_t> row_major = row_major_strides(shape);
  const std::int64_t features = shape.dim(-1) / geometry.groups;
  Dims extents = {features, shape.dim(-2)};
  Dims strides = {1, shape.dim(-1)};
  for (int d = 0; d < shape.rank() - 2; ++d) {
    extents.push_back(shape[d]);
    strides.push_back(row_major[static_cast<std::size_t>(d)]);
  }
  if (geometry.groups > 1) {
    extents.insert(extents.begin(), geometry.groups);
    strides.insert(strides.begin(), features);
  }
  if (any_layout) return {extents, type, dnnl::memory::format_tag::any};
  return {extents, type, strides};
}

/// A gradient of the kernel may be of another type than its operands.
dnnl::memory::data_type kernel_type(const KernelRequest& request) {
  return data_type((request.op == "conv_kernel_grad" ? request.outputs : request.inputs)[0].dtype);
}

/// The primitive's description for a request, empty where oneDNN has none.
class Description {
 public:
  Description(const KernelRequest& request, const ConvolutionGeometry& geometry, bool any_layout)
      : type_(data_type(request.inputs[0].dtype)),
        x_(image(geometry.x, type_)),
        kernel_(filter(geometry, type_, any_layout)),
        kernel_grad_(filter(geometry, kernel_type(request), any_layout)),
        y_(image(geometry.y, type_)),
        geometry_(geometry) {
    for (std::int64_t step : geometry.dilation) between_.push_back(step - 1);
  }

  dnnl::convolution_forward::primitive_desc forward() const {
    return {cpu(),
            dnnl::prop_kind::forward_training,
            dnnl::algorithm::convolution_direct,
            x_,
            kernel_,
            y_,
            geometry_.strides,
            between_,
            geometry_.low,
            geometry_.high,
            attributes(),
            true};
  }
  dnnl::convolution_backward_data::primitive_desc input_grad() const {
    return backward<dnnl::convolution_backward_data>(kernel_);
  }
  dnnl::convolution_backward_weights::primitive_desc kernel_grad() const {
    return backward<dnnl::convolution_backward_weights>(kernel_grad_);
  }

  const Desc& x() const { return x_; }
  const Desc& y() const { return y_; }

 private:
  template <class Backward>
  typename Backward::primitive_desc backward(const Desc& kernel) const {
    return {cpu(),
            dnnl::algorithm::convolution_direct,
            x_,
            kernel,
            y_,
            geometry_.strides,
            between_,
            geometry_.low,
            geometry_.high,
            forward(),
            attributes(),
            true};
  }

  dnnl::memory::data_type type_;
  Desc x_, kernel_, kernel_grad_, y_;
  Dims between_;  ///< Elements between those of a window: what oneDNN calls dilation.
  const ConvolutionGeometry& geometry_;
};

/// A convolution with its kernel in the layout that oneDNN likes best, brought there or back in each run: measured, this
/// costs a hundredth of what it saves. Images stay as they are.
class Convolution final : public Kernel {
 public:
  /// False where oneDNN has nothing fast.
  bool prepare(const KernelRequest& request, const ConvolutionGeometry& geometry) {
    const Description description(request, geometry, true);
    const Desc plain = filter(geometry, kernel_type(request), false);
    if (!(request.op == "conv"              ? bind_forward(description, plain)
          : request.op == "conv_input_grad" ? bind_input_grad(description, plain)
                                            : bind_kernel_grad(description, plain))) {
      return false;
    }
    scratch_bytes_ =
        kernel_bytes_ + std::max(reorder_ == nullptr ? 0 : reorder_->scratch_bytes(), convolution_->scratch_bytes());
    return true;
  }

  void run(const KernelArguments& arguments) const override {
    std::byte* own_kernel = static_cast<std::byte*>(arguments.scratch);
    std::byte* scratch = own_kernel + kernel_bytes_;
    const void* first = arguments.inputs[0].data;
    const void* second = arguments.inputs[1].data;
    void* result = arguments.outputs[0].data;
    if (reorder_ == nullptr) {
      convolution_->run({first, second, result}, scratch);
    } else if (makes_kernel_) {
      convolution_->run({first, second, own_kernel}, scratch);
      reorder_->run({own_kernel, result}, scratch);
    } else {
      reorder_->run({second, own_kernel}, scratch);
      convolution_->run({first, own_kernel, result}, scratch);
    }
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  bool bind_forward(const Description& description, const Desc& plain) {
    const auto made = description.forward();
    if (!made || is_reference(made) || !bind_reorder(plain, made.weights_desc())) return false;
    convolution_ = std::make_unique<BoundPrimitive>(
        made, dnnl::convolution_forward(made),
        std::vector<BoundPrimitive::Argument>{
            {DNNL_ARG_SRC, description.x()}, {DNNL_ARG_WEIGHTS, made.weights_desc()}, {DNNL_ARG_DST, description.y()}});
    return true;
  }

  bool bind_input_grad(const Description& description, const Desc& plain) {
    if (!description.forward()) return false;
    const auto made = description.input_grad();
    if (!made || is_reference(made) || !bind_reorder(plain, made.weights_desc())) return false;
    convolution_ =
        std::make_unique<BoundPrimitive>(made, dnnl::convolution_backward_data(made),
                                         std::vector<BoundPrimitive::Argument>{{DNNL_ARG_DIFF_DST, description.y()},
                                                                               {DNNL_ARG_WEIGHTS, made.weights_desc()},
                                                                               {DNNL_ARG_DIFF_SRC, description.x()}});
    return true;
  }

  bool bind_kernel_grad(const Description& description, const Desc& plain) {
    if (!description.forward()) return false;
    const auto made = description.kernel_grad();
    if (!made || is_reference(made) || !bind_reorder(made.diff_weights_desc(), plain)) return false;
    convolution_ = std::make_unique<BoundPrimitive>(
        made, dnnl::convolution_backward_weights(made),
        std::vector<BoundPrimitive::Argument>{{DNNL_ARG_SRC, description.x()},
                                              {DNNL_ARG_DIFF_DST, description.y()},
                                              {DNNL_ARG_DIFF_WEIGHTS, made.diff_weights_desc()}});
    makes_kernel_ = true;
    return true;
  }

  bool bind_reorder(const Desc& from, const Desc& to) {
    if (from == to) return true;
    const dnnl::reorder::primitive_desc made(cpu(), from, cpu(), to, attributes(), true);
    if (!made) return false;
    reorder_ = std::make_unique<BoundPrimitive>(
        made, dnnl::reorder(made), std::vector<BoundPrimitive::Argument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    kernel_bytes_ = whole_lines(std::max(from.get_size(), to.get_size()));
    return true;
  }

  std::unique_ptr<BoundPrimitive> convolution_;
  std::unique_ptr<BoundPrimitive> reorder_;  ///< Null where the plain layout is the best.
  bool makes_kernel_ = false;
  std::size_t kernel_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Kernel>> make_convolution_parts(const KernelRequest& request, const Kernel& whole) {
  const ConvolutionGeometry geometry(request);
  const std::int64_t images = geometry.x[0];
  const std::int64_t size = geometry.y.size() * (geometry.kernel.size() / geometry.kernel.dim(-1));
  const std::int64_t count = std::min({most_parts, size / least_part, images});
  if (count < 2) return {};
  std::array<ArrayType, 2> inputs = {request.inputs[0], request.inputs[1]};
  ArrayType output = request.outputs[0];
  const auto bytes_an_image = [&](const ArrayType& type) { return static_cast<std::size_t>(type.nbytes() / images); };
  const PartSteps steps{{bytes_an_image(inputs[0]), 0}, bytes_an_image(output)};
  auto parts = cut(images, (images + count - 1) / count, steps, [&](std::int64_t extent) {
    inputs[0].shape = inputs[0].shape.with(0, extent);
    output.shape = output.shape.with(0, extent);
    return make_convolution({request.op, request.attrs, inputs, {&output, 1}, request.device});
  });
  if (parts.empty() || !have_same_bits(request, whole, parts)) return {};
  return parts;
}

std::unique_ptr<Kernel> make_convolution(const KernelRequest& request) {
  if (data_type(request.inputs[0].dtype) == dnnl::memory::data_type::undef) return nullptr;
  const int spatial = request.inputs[0].shape.rank() - 2;
  if (spatial < 1 || spatial > 3) return nullptr;
  const bool empty = request.inputs[0].size() == 0 || request.inputs[1].size() == 0 || request.outputs[0].size() == 0;
  if (empty) return nullptr;  // zeros, or nothing at all
  const ConvolutionGeometry geometry(request);
  if (auto tiles = make_winograd(request, geometry)) return tiles;
  if (auto product = make_window_product(request, geometry)) return product;
  auto kernel = std::make_unique<Convolution>();
  if (!kernel->prepare(request, geometry)) return nullptr;
  return kernel;
}

}  // namespace lockstep::backends::onednn
