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
  }
  // All measured.
  constexpr std::int64_t most_floats = std::int64_t{1} << 16, least_tiles = 64;
  const std::int64_t columns = op == "conv_kernel_grad" ? w.features : std::min(w.features, winograd_panel);
  const std::int64_t floats_a_tile = winograd_planes * (whole_vectors(w.channels) + whole_vectors(columns));
  const std::int64_t most = std::clamp<std::int64_t>(most_floats / floats_a_tile, least_tiles, w.tiles());
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

/// Whether it takes fewer cycles a tile than oneDNN's convolutions; all constants measured.
bool is_faster(const Winograd& w) {
  const auto count = [](std::int64_t n) { return static_cast<double>(n); };
  const double products = count(w.channels * whole_vectors(w.features)), tiles = count(w.tiles());
  const double planes = winograd_planes * products / (w.features > lanes ? 30 : 20) + 130;
  const double transforms = 4.5 * count(whole_vectors(w.channels)) + 3 * count(whole_vectors(w.features));
  // Of the kernel, once for all tiles; one that the second-level cache does not hold is read for each block.
  constexpr double most_products = 1 << 14;
  const double kernel = products * (8 / tiles + (products > most_products ? 12.8 / count(w.tiles_at_once) : 0));
  const double places = count(w.images * w.y_height * w.y_width) / tiles;
  return planes + transforms + kernel < 9 * places * products / 30.5;
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
    planes_bytes_ = bytes(winograd_kernel_floats(w_));
    scratch_bytes_ = planes_bytes_ + bytes(winograd_convolve_floats(w_));
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
  static float* floats(std::byte* at) { return static_cast<float*>(static_cast<void*>(at)); }

  void convolve(const KernelArguments& arguments, const float* kernel, bool turned, std::byte* scratch) const {
    float* planes = floats(scratch);
    loops_.transform_kernel(w_, kernel, turned, planes);
    loops_.convolve(w_, input(arguments, 0), planes, static_cast<float*>(arguments.outputs[0].data),
                    floats(scratch + planes_bytes_));
  }

  void forward(const KernelArguments& arguments) const {
    convolve(arguments, input(arguments, 1), false, static_cast<std::byte*>(arguments.scratch));
  }

  void input_grad(const KernelArguments& arguments) const {
    auto* scratch = static_cast<std::byte*>(arguments.scratch);
    transpose_->run({arguments.inputs[1].data, scratch}, scratch + transposed_bytes_);
    convolve(arguments, floats(scratch), true, scratch + transposed_bytes_);
  }

  void kernel_grad(const KernelArguments& arguments) const {
    loops_.kernel_grad(w_, input(arguments, 0), input(arguments, 1), static_cast<float*>(arguments.outputs[0].data),
                       floats(static_cast<std::byte*>(arguments.scratch)));
  }

  WinogradLoops loops_;
  Winograd w_;
  std::unique_ptr<BoundPrimitive> transpose_;
  std::size_t transposed_bytes_ = 0, planes_bytes_ = 0, scratch_bytes_ = 0;
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
