#include "backends/onednn/winograd.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

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
  const double kernel = products * (is_large(w) ? 12 / count(w.tiles_at_once) : 8 / count(w.tiles()));
  // oneDNN's convolutions, or one product where images are small (window_product.h).
  const double places = count(w.images * w.y_height * w.y_width) / count(w.tiles());
  return planes + transforms + kernel < 9 * places * products / (w.y_width <= 4 ? 25 : 30.5);
}

class WinogradConvolution final : public Kernel {
 public:
  using Run = void (*)(const Winograd& w, const float* first, const float* second, float* result, float* scratch);

  WinogradConvolution(Run run, const Winograd& problem, std::int64_t scratch_floats)
      : run_(run), w_(problem), scratch_bytes_(whole_lines(static_cast<std::size_t>(scratch_floats) * sizeof(float))) {}

  void run(const KernelArguments& arguments) const override {
    const auto input = [&](std::size_t i) { return static_cast<const float*>(arguments.inputs[i].data); };
    run_(w_, input(0), input(1), static_cast<float*>(arguments.outputs[0].data),
         static_cast<float*>(arguments.scratch));
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }

 private:
  Run run_;
  Winograd w_;
  std::size_t scratch_bytes_;
};

}  // namespace

std::unique_ptr<Kernel> make_winograd(const KernelRequest& request, const ConvolutionGeometry& geometry) {
#if defined(__x86_64__)
  const Isa isa = usable_isa();
  if (request.inputs[0].dtype != DType::float32 || isa == Isa::none || !applies(geometry)) return nullptr;
  const Winograd w = problem(request.op, geometry);
  if (!is_faster(w)) return nullptr;
  const WinogradLoops loops = isa == Isa::avx512 ? winograd_loops_avx512() : winograd_loops_avx2();
  if (request.op == "conv_kernel_grad") {
    return std::make_unique<WinogradConvolution>(loops.kernel_grad, w, winograd_kernel_grad_floats(w));
  }
  return std::make_unique<WinogradConvolution>(loops.convolve, w, winograd_convolve_floats(w));
#endif
  return nullptr;
}

}  // namespace lockstep::backends::onednn
