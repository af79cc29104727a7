#include "backends/onednn/winograd.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <oneapi/dnnl/dnnl.hpp>

#include <lockstep/isa.h>

#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/winograd_blocks.h"

namespace lockstep::backends::onednn {

namespace {

/// The convolution itself, or the one that gives x's gradient: of dy, padded so that each window which has held a place
/// of x is there, with the kernel turned.
Winograd problem(std::string_view op, const ConvolutionGeometry& g) {
  Winograd w{.images = g.x[0],
             .height = g.x[1],
             .width = g.x[2],
             .channels = g.x[3],
             .y_height = g.y[1],
             .y_width = g.y[2],
             .features = g.y[3],
             .low_height = g.low[0],
             .low_width = g.low[1],
             .tiles_at_once = 1};
  if (op == "conv_input_grad") {
    std::swap(w.height, w.y_height);
    std::swap(w.width, w.y_width);
    std::swap(w.channels, w.features);
    w.low_height = 2 - w.low_height;
    w.low_width = 2 - w.low_width;
    w.turned = true;
  }
  constexpr std::int64_t most_floats = std::int64_t{1} << 16, least_tiles = 64;  // measured
  const std::int64_t columns = op == "conv_kernel_grad" ? w.features : std::min(w.features, winograd_panel);
  const std::int64_t floats_a_tile = winograd_planes * (whole_vectors(w.channels) + whole_vectors(columns));
  const std::int64_t most = std::min(w.tiles(), std::max(most_floats / floats_a_tile, least_tiles));
  const std::int64_t blocks = (w.tiles() + most - 1) / most;
  w.tiles_at_once = (w.tiles() + blocks - 1) / blocks;
  return w;
}

bool applies(const ConvolutionGeometry& g) {
  if (g.spatial_rank() != 2 || g.groups != 1 || g.is_strided()) return false;
  for (std::size_t d = 0; d < 2; ++d) {
    if (g.kernel[static_cast<int>(d)] != 3 || g.dilation[d] != 1) return false;
    if (g.low[d] < 0 || g.low[d] > 2 || g.high[d] < 0 || g.high[d] > 2) return false;
  }
  return true;
}

/// Whether it takes fewer cycles a tile than what else there is; all constants measured.
bool is_faster(const Winograd& w) {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  const double products = count(w.channels * whole_vectors(w.features));
  const double planes = winograd_planes * products / (w.features > lanes ? 30 : 20) + 130;
  const double transforms = 4.5 * count(whole_vectors(w.channels)) + 3 * count(whole_vectors(w.features));
  const double kernel = products * (is_large(w) ? 15 / count(w.tiles_at_once) : 8 / count(w.tiles()));
  // oneDNN's convolutions, or one product where images are small (window_product.h).
  const double places = count(w.images * w.y_height * w.y_width) / count(w.tiles());
  return planes + transforms + kernel < 9 * places * products / (w.y_width <= 4 ? 25 : 30.5);
}

class WinogradConvolution final : public Kernel {
 public:
  WinogradConvolution(const WinogradLoops& loops, const Winograd& problem) : loops_(loops), w_(problem) {}

  /// False where the kernel cannot be transposed.
  bool prepare(const KernelRequest& request, const ConvolutionGeometry& geometry) {
    const auto bytes = [](std::int64_t floats) {
      return whole_lines(static_cast<std::size_t>(floats) * sizeof(float));
    };
    if (request.op == "conv_kernel_grad") {
      run_ = &WinogradConvolution::kernel_grad;
      scratch_bytes_ = bytes(winograd_kernel_grad_floats(w_));
      return true;
    }
    run_ = &WinogradConvolution::forward;
    scratch_bytes_ = bytes(winograd_convolve_floats(w_));
    if (request.op == "conv") return true;
    run_ = &WinogradConvolution::input_grad;
    transposed_bytes_ = bytes(geometry.kernel.size());
    scratch_bytes_ += transposed_bytes_;
    return bind_transpose();
  }

  void run(const KernelArguments& arguments) const override { (this->*run_)(arguments); }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  /// [3, 3, features, channels] to [3, 3, channels, features], w_ being the gradient's own problem.
  bool bind_transpose() {
    const dnnl::memory::dims extents = {9, w_.channels, w_.features};
    const auto type = dnnl::memory::data_type::f32;
    const dnnl::memory::desc from(extents, type, dnnl::memory::format_tag::acb),
        to(extents, type, dnnl::memory::format_tag::abc);
    const dnnl::reorder::primitive_desc made(cpu(), from, cpu(), to, attributes(), true);
    if (!made) return false;
    transpose_ = std::make_unique<BoundPrimitive>(
        made, dnnl::reorder(made), std::vector<BoundPrimitive::Argument>{{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
    scratch_bytes_ = std::max(scratch_bytes_, transposed_bytes_ + transpose_->scratch_bytes());
    return true;
  }

  static const float* input(const KernelArguments& arguments, std::size_t i) {
    return static_cast<const float*>(arguments.inputs[i].data);
  }
  static float* result(const KernelArguments& arguments) { return static_cast<float*>(arguments.outputs[0].data); }
  static std::byte* scratch(const KernelArguments& arguments) { return static_cast<std::byte*>(arguments.scratch); }
  static float* floats(std::byte* at) { return static_cast<float*>(static_cast<void*>(at)); }

  void forward(const KernelArguments& arguments) const {
    loops_.convolve(w_, input(arguments, 0), input(arguments, 1), result(arguments), floats(scratch(arguments)));
  }

  void input_grad(const KernelArguments& arguments) const {
    std::byte* transposed = scratch(arguments);
    std::byte* rest = transposed + transposed_bytes_;
    transpose_->run({arguments.inputs[1].data, transposed}, rest);
    loops_.convolve(w_, input(arguments, 0), floats(transposed), result(arguments), floats(rest));
  }

  void kernel_grad(const KernelArguments& arguments) const {
    loops_.kernel_grad(w_, input(arguments, 0), input(arguments, 1), result(arguments), floats(scratch(arguments)));
  }

  WinogradLoops loops_;
  Winograd w_;
  std::unique_ptr<BoundPrimitive> transpose_;
  std::size_t transposed_bytes_ = 0, scratch_bytes_ = 0;
  void (WinogradConvolution::*run_)(const KernelArguments&) const = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> make_winograd(const KernelRequest& request, const ConvolutionGeometry& geometry) {
#if defined(__x86_64__)
  const Isa isa = usable_isa();
  if (request.inputs[0].dtype != DType::float32 || isa == Isa::none || !applies(geometry)) return nullptr;
  const Winograd w = problem(request.op, geometry);
  if (!is_faster(w)) return nullptr;
  auto kernel =
      std::make_unique<WinogradConvolution>(isa == Isa::avx512 ? winograd_loops_avx512() : winograd_loops_avx2(), w);
  if (kernel->prepare(request, geometry)) return kernel;
#endif
  return nullptr;
}

}  // namespace lockstep::backends::onednn
