#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/backend/row_kernels.h>

#include "backends/cpu/blocks.h"
#include "backends/cpu/convolutions/bfloat16_grads.h"
#include "backends/cpu/convolutions/convolution_geometry.h"
#include "backends/cpu/convolutions/depthwise.h"
#include "backends/cpu/convolutions/winograd.h"
#include "backends/cpu/parts.h"
#include "backends/cpu/scratch.h"
#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/kernels.h"
#include "backends/onednn/library.h"
#include "backends/onednn/strided_places.h"
#include "backends/onednn/widened.h"
#include "backends/onednn/window_product.h"

namespace lockstep::backend::onednn {

namespace {

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
Desc filter(const cpu::ConvolutionGeometry& geometry, dnnl::memory::data_type type, bool any_layout) {
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
  Description(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry, bool any_layout)
      : type_(data_type(request.inputs[0].dtype)),
        x_(image(geometry.x, type_)),
        kernel_(filter(geometry, type_, any_layout)),
        kernel_grad_(filter(geometry, kernel_type(request), any_layout)),
        y_(image(geometry.y, type_)),
        geometry_(geometry) {
    for (std::int64_t step : geometry.dilation) between_.push_back(step - 1);
    forward_ = {cpu_engine(),
                dnnl::prop_kind::forward_training,
                dnnl::algorithm::convolution_direct,
                x_,
                kernel_,
                y_,
                geometry.strides,
                between_,
                geometry.low,
                geometry.high,
                attributes(),
                true};
  }

  /// Of gradients as well, which are described by it.
  const dnnl::convolution_forward::primitive_desc& forward() const { return forward_; }
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
    return {cpu_engine(),
            dnnl::algorithm::convolution_direct,
            x_,
            kernel,
            y_,
            geometry_.strides,
            between_,
            geometry_.low,
            geometry_.high,
            forward_,
            attributes(),
            true};
  }

  dnnl::memory::data_type type_;
  Desc x_, kernel_, kernel_grad_, y_;
  Dims between_;  ///< Elements between those of a window: what oneDNN calls dilation.
  dnnl::convolution_forward::primitive_desc forward_;
  const cpu::ConvolutionGeometry& geometry_;
};

/// Whether oneDNN would lay out windows and multiply, where window_product.h is faster, or has no loop of its own for a
/// channel a group, where depthwise.h is. All measured.
bool is_slow(const dnnl::primitive_desc_base& description, const cpu::ConvolutionGeometry& geometry) {
  const std::string_view name = description.impl_info_str();
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  return has("gemm") || (geometry.is_depthwise() && !has("dw"));
}

/// A kernel brought to the layout that oneDNN likes best or back, in each run: measured, this costs a hundredth of what it
/// saves.
class WindowLayout {
 public:
  /// False where oneDNN cannot, or where it is bound to other layouts.
  bool bind(const Desc& from, const Desc& to) {
    if (is_bound_) return from == from_ && to == to_;
    is_bound_ = true;
    from_ = from;
    to_ = to;
    if (from == to) return true;
    const dnnl::reorder::primitive_desc made(cpu_engine(), from, cpu_engine(), to, attributes(), true);
    if (!made) return false;
    reorder_ = std::make_shared<const BoundPrimitive>(
        made, dnnl::reorder(made), std::vector<BoundPrimitive::Argument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    kernel_bytes_ = cpu::whole_lines(std::max(from.get_size(), to.get_size()));
    return true;
  }

  /// Whether the plain layout is the best.
  bool is_plain() const { return reorder_ == nullptr; }
  void run(const void* from, void* to, void* scratch) const { reorder_->run({from, to}, scratch); }
  std::size_t kernel_bytes() const { return kernel_bytes_; }
  std::size_t scratch_bytes() const { return reorder_ == nullptr ? 0 : reorder_->scratch_bytes(); }

 private:
  std::shared_ptr<const BoundPrimitive> reorder_;
  Desc from_, to_;
  bool is_bound_ = false;
  std::size_t kernel_bytes_ = 0;
};

/// A convolution, or the gradient of x, some images at a time; these stay as they are.
class Convolution final : public cpu::ImageKernel {
 public:
  /// False where oneDNN has nothing fast.
  bool prepare(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
    images_ = geometry.x[0];
    const ArrayType &from = request.inputs[0], &to = request.outputs[0];
    image_bytes_ = {from.nbytes() / images_, to.nbytes() / images_};
    rows_an_image_ = to.size() / to.shape.dim(-1) / images_;
    // Blocks of other sizes may want another layout of the kernel: then all images are one.
    if (!bind_blocks(request, geometry, images_for_the_cache()) && !bind_blocks(request, geometry, images_))
      return false;
    std::size_t scratch = std::max(layout_.scratch_bytes(), whole_->scratch_bytes());
    if (rest_ != nullptr) scratch = std::max(scratch, rest_->scratch_bytes());
    scratch_bytes_ = layout_.kernel_bytes() + scratch;
    return true;
  }

  void run_for(const KernelArguments& arguments, RowReader* reader) const override {
    const void* kernel = arguments.inputs[1].data;
    std::byte* scratch = static_cast<std::byte*>(arguments.scratch) + layout_.kernel_bytes();
    if (!layout_.is_plain()) {
      layout_.run(kernel, arguments.scratch, scratch);
      kernel = arguments.scratch;
    }
    const auto* from = static_cast<const std::byte*>(arguments.inputs[0].data);
    auto* to = static_cast<std::byte*>(arguments.outputs[0].data);
    for (std::int64_t first = 0; first < images_; first += at_once_) {
      const std::int64_t count = std::min(at_once_, images_ - first);
      (count == at_once_ ? whole_ : rest_)
          ->run({from + first * image_bytes_[0], kernel, to + first * image_bytes_[1]}, scratch);
      if (reader != nullptr) reader->read(first * rows_an_image_, count * rows_an_image_);
    }
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::int64_t images_at_once() const override { return at_once_; }
  std::unique_ptr<Kernel> of_images(std::int64_t count) const override {
    auto some = std::make_unique<Convolution>(*this);
    some->images_ = count;
    return some;
  }
  bool is_slow() const { return is_slow_; }

 private:
  /// As many as leave a second-level cache room for what else a loop over the result reads; all but the last blocks equal.
  std::int64_t images_for_the_cache() const {
    constexpr std::int64_t most_bytes = std::int64_t{1} << 19;
    return cpu::equal_blocks(images_, most_bytes / std::max<std::int64_t>(image_bytes_[1], 1));
  }

  bool bind_blocks(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry, std::int64_t at_once) {
    layout_ = {};
    at_once_ = at_once;
    whole_ = bind(request, geometry, at_once);
    const std::int64_t rest = images_ % at_once;
    rest_ = rest == 0 ? nullptr : bind(request, geometry, rest);
    return whole_ != nullptr && (rest == 0 || rest_ != nullptr);
  }

  /// Of so many images; null where oneDNN has nothing fast.
  std::shared_ptr<const BoundPrimitive> bind(const KernelRequest& request, cpu::ConvolutionGeometry geometry,
                                             std::int64_t images) {
    geometry.x = geometry.x.with(0, images);
    geometry.y = geometry.y.with(0, images);
    const Description description(request, geometry, true);
    const Desc plain = filter(geometry, kernel_type(request), false);
    const auto& forward = description.forward();
    if (!forward) return nullptr;
    if (request.op == "conv") {
      if (is_reference(forward) || !layout_.bind(plain, forward.weights_desc())) return nullptr;
      is_slow_ = onednn::is_slow(forward, geometry);
      return std::make_shared<const BoundPrimitive>(
          forward, dnnl::convolution_forward(forward),
          std::vector<BoundPrimitive::Argument>{{DNNL_ARG_SRC, description.x()},
                                                {DNNL_ARG_WEIGHTS, forward.weights_desc()},
                                                {DNNL_ARG_DST, description.y()}});
    }
    const auto made = description.input_grad();
    if (!made || is_reference(made) || !layout_.bind(plain, made.weights_desc())) return nullptr;
    is_slow_ = onednn::is_slow(made, geometry);
    return std::make_shared<const BoundPrimitive>(
        made, dnnl::convolution_backward_data(made),
        std::vector<BoundPrimitive::Argument>{{DNNL_ARG_DIFF_DST, description.y()},
                                              {DNNL_ARG_WEIGHTS, made.weights_desc()},
                                              {DNNL_ARG_DIFF_SRC, description.x()}});
  }

  WindowLayout layout_;
  std::shared_ptr<const BoundPrimitive> whole_, rest_;
  std::int64_t images_ = 0, at_once_ = 0, rows_an_image_ = 0;
  std::array<std::int64_t, 2> image_bytes_{};  ///< Of the first operand and of the result.
  std::size_t scratch_bytes_ = 0;
  bool is_slow_ = false;
};

class ConvolutionKernelGrad final : public Kernel {
 public:
  /// False where oneDNN has nothing fast.
  bool prepare(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
    const Description description(request, geometry, true);
    if (!description.forward()) return false;
    const auto made = description.kernel_grad();
    const Desc plain = filter(geometry, kernel_type(request), false);
    if (!made || is_reference(made) || !layout_.bind(made.diff_weights_desc(), plain)) return false;
    is_slow_ = onednn::is_slow(made, geometry);
    gradient_ = std::make_unique<BoundPrimitive>(
        made, dnnl::convolution_backward_weights(made),
        std::vector<BoundPrimitive::Argument>{{DNNL_ARG_SRC, description.x()},
                                              {DNNL_ARG_DIFF_DST, description.y()},
                                              {DNNL_ARG_DIFF_WEIGHTS, made.diff_weights_desc()}});
    scratch_bytes_ = layout_.kernel_bytes() + std::max(layout_.scratch_bytes(), gradient_->scratch_bytes());
    return true;
  }

  void run(const KernelArguments& arguments) const override {
    std::byte* scratch = static_cast<std::byte*>(arguments.scratch) + layout_.kernel_bytes();
    void* result = arguments.outputs[0].data;
    void* own = layout_.is_plain() ? result : arguments.scratch;
    gradient_->run({arguments.inputs[0].data, arguments.inputs[1].data, own}, scratch);
    if (!layout_.is_plain()) layout_.run(own, result, scratch);
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  bool is_slow() const { return is_slow_; }

 private:
  WindowLayout layout_;
  std::unique_ptr<BoundPrimitive> gradient_;
  std::size_t scratch_bytes_ = 0;
  bool is_slow_ = false;
};

/// oneDNN's own; where that has no code for the processor, what of ours there is first.
template <class Made>
std::unique_ptr<Kernel> make_direct(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
  auto kernel = std::make_unique<Made>();
  if (!kernel->prepare(request, geometry)) kernel = nullptr;
  if (kernel != nullptr && !kernel->is_slow()) return kernel;
  if (auto own = cpu::make_depthwise(request, geometry)) return own;
  if (auto products = make_window_products(request, geometry)) return products;
  return kernel;
}

/// A way to compute a convolution or one of its gradients.
struct ConvolutionWay {
  const char* why;
  /// Where it stands alone: no later one may be asked even if it has no kernel, and elsewhere it is not. Null: it may have a
  /// kernel anywhere.
  bool (*is_alone)(const KernelRequest&, const cpu::ConvolutionGeometry&);
  std::unique_ptr<Kernel> (*make)(const KernelRequest&, const cpu::ConvolutionGeometry&);
};

/// The first that has a kernel is taken.
constexpr ConvolutionWay convolution_ways[] = {
    {"oneDNN's gradient for a strided kernel of one place writes beyond its memory (its issue 6035)",
     [](const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
       return request.op == "conv_kernel_grad" && geometry.window_size() == 1 && geometry.is_strided();
     },
     make_strided_places},
    {"Winograd's tiles multiply less than half as often", nullptr,
     [](const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
       return cpu::make_winograd(request, geometry, bfloat16_products());
     }},
    {"bfloat16 is multiplied no faster than float32 here: widened, and as that is computed",
     [](const KernelRequest& request, const cpu::ConvolutionGeometry&) { return is_widened(request); },
     [](const KernelRequest& request, const cpu::ConvolutionGeometry&) {
       return make_widened(request, make_convolution);
     }},
    {"gradients of bfloat16 by products of pairs", nullptr,
     [](const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
       return cpu::make_bfloat16_grad(request, geometry, bfloat16_products());
     }},
    {"images a few places wide: oneDNN goes row by row, one product of all windows does not", nullptr,
     make_window_product},
    {"oneDNN's convolutions", nullptr,
     [](const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
       return (request.op == "conv_kernel_grad" ? make_direct<ConvolutionKernelGrad>
                                                : make_direct<Convolution>)(request, geometry);
     }},
};

}  // namespace

std::unique_ptr<Kernel> make_convolution(const KernelRequest& request) {
  if (data_type(request.inputs[0].dtype) == dnnl::memory::data_type::undef) return nullptr;
  const int spatial = request.inputs[0].shape.rank() - 2;
  if (spatial < 1 || spatial > 3) return nullptr;
  const bool empty = request.inputs[0].size() == 0 || request.inputs[1].size() == 0 || request.outputs[0].size() == 0;
  if (empty) return nullptr;                            // zeros, or nothing at all
  if (request.attrs.has("sum_blocks")) return nullptr;  // an order of its own
  const cpu::ConvolutionGeometry geometry(request);
  for (const ConvolutionWay& candidate : convolution_ways) {
    const bool is_alone = candidate.is_alone != nullptr;
    if (is_alone && !candidate.is_alone(request, geometry)) continue;
    auto kernel = candidate.make(request, geometry);
    if (kernel != nullptr || is_alone) return kernel;
  }
  return nullptr;
}

}  // namespace lockstep::backend::onednn
