#include "backends/onednn/winograd.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <lockstep/isa.h>
#include <lockstep/joined_ops.h>
#include <lockstep/row_kernels.h>

#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/parts.h"
#include "backends/onednn/winograd_grads.h"

namespace lockstep::backends::onednn {

namespace {

/// The convolution itself, or the one that gives x's gradient: of dy, padded so that each window which has held a place
/// of x is there, with the kernel turned. Of so many arrays of this geometry.
Winograd problem(std::string_view op, const ConvolutionGeometry& g, std::int64_t arrays = 1) {
  Winograd w{.images = g.x[0] * arrays,
             .height = g.x[1],
             .width = g.x[2],
             .channels = g.x[3],
             .y_height = g.y[1],
             .y_width = g.y[2],
             .features = g.y[3],
             .low_height = g.low[0],
             .low_width = g.low[1],
             .images_an_array = g.x[0],
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
  w.tiles_at_once = equal_blocks(w.tiles(), std::max(most_floats / floats_a_tile, least_tiles));
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

double count(std::int64_t n) { return static_cast<double>(n); }

double products_a_place(const Winograd& w) { return count(w.channels * whole_vectors(w.features)); }

/// What the window's transformation takes, in cycles a tile; all constants measured.
double window_cycles(const Winograd& w) {
  return products_a_place(w) * (is_large(w) ? 12 / count(w.tiles_at_once) : 8 / count(w.tiles()));
}

/// All that a tile takes.
double cycles(const Winograd& w) {
  const double planes = winograd_planes * products_a_place(w) / (w.features > lanes ? 30 : 20) + 130;
  const double transforms = 4.5 * count(whole_vectors(w.channels)) + 3 * count(whole_vectors(w.features));
  return planes + transforms + window_cycles(w);
}

/// Whether it takes fewer cycles a tile than what else there is: oneDNN's convolutions, or one product where images are
/// small (window_product.h).
bool is_faster(const Winograd& w) {
  const double places = count(w.images * w.y_height * w.y_width) / count(w.tiles());
  return cycles(w) < 9 * places * products_a_place(w) / (w.y_width <= 4 ? 25 : 30.5);
}

/// One of the loops, bound to its problem.
template <class Run, class Problem, class Base = Kernel>
class WinogradKernel : public Base {
 public:
  std::size_t scratch_bytes() const final { return scratch_bytes_; }

 protected:
  WinogradKernel(Run run, const Problem& problem, std::int64_t scratch_floats)
      : run_(run),
        problem_(problem),
        scratch_bytes_(whole_lines(static_cast<std::size_t>(scratch_floats) * sizeof(float))) {}

  /// The loop on these arrays, its first operands.
  template <class... Arrays>
  void run_on(const KernelArguments& arguments, Arrays... arrays) const {
    run_(problem_, arrays..., static_cast<float*>(arguments.scratch));
  }

 private:
  Run run_;
  Problem problem_;
  std::size_t scratch_bytes_;
};

const float* input(const KernelArguments& arguments, std::size_t i) {
  return static_cast<const float*>(arguments.inputs[i].data);
}
float* output(const KernelArguments& arguments, std::size_t i) {
  return static_cast<float*>(arguments.outputs[i].data);
}

class WinogradConvolution final : public WinogradKernel<decltype(WinogradLoops::convolve), Winograd, RowWriter> {
 public:
  WinogradConvolution(const WinogradLoops& loops, const Winograd& problem)
      : WinogradKernel(loops.convolve, problem, winograd_convolve_floats(problem)) {}

  void run_for(const KernelArguments& arguments, RowReader* reader) const override {
    const float* const x = input(arguments, 0);
    float* const y = output(arguments, 0);
    const PlacesReader places{
        [](void* self, std::int64_t first, std::int64_t count) { static_cast<RowReader*>(self)->read(first, count); },
        reader};
    run_on(arguments, &x, input(arguments, 1), &y, reader == nullptr ? nullptr : &places);
  }
};

/// x of several arrays, the window, y of as many.
class WinogradConvolutions final : public WinogradKernel<decltype(WinogradLoops::convolve), Winograd> {
 public:
  WinogradConvolutions(const WinogradLoops& loops, const Winograd& problem)
      : WinogradKernel(loops.convolve, problem, winograd_convolve_floats(problem)) {}

  void run(const KernelArguments& arguments) const override {
    std::array<const float*, most_winograd_arrays> x;
    std::array<float*, most_winograd_arrays> y;
    const std::size_t arrays = arguments.outputs.size();
    for (std::size_t i = 0; i < arrays; ++i) {
      x[i] = input(arguments, i);
      y[i] = output(arguments, i);
    }
    run_on(arguments, x.data(), input(arguments, arrays), y.data(), static_cast<const PlacesReader*>(nullptr));
  }
};

class WinogradKernelGrad final : public WinogradKernel<decltype(WinogradLoops::kernel_grad), Winograd> {
 public:
  WinogradKernelGrad(const WinogradLoops& loops, const Winograd& problem)
      : WinogradKernel(loops.kernel_grad, problem, winograd_kernel_grad_floats(problem)) {}

  void run(const KernelArguments& arguments) const override {
    run_on(arguments, input(arguments, 0), input(arguments, 1), output(arguments, 0));
  }
};

/// x and y's gradient of one array after the other, the sum of the window's gradients.
class WinogradSumOfKernelGrads final : public WinogradKernel<decltype(WinogradLoops::sum_kernel_grads), WinogradSum> {
 public:
  WinogradSumOfKernelGrads(const WinogradLoops& loops, const WinogradSum& sum)
      : WinogradKernel(loops.sum_kernel_grads, sum, winograd_sum_floats(sum)) {}

  void run(const KernelArguments& arguments) const override {
    std::array<const float*, most_winograd_arrays> x, dy;
    for (std::size_t i = 0; i < arguments.inputs.size() / 2; ++i) {
      x[i] = input(arguments, 2 * i);
      dy[i] = input(arguments, 2 * i + 1);
    }
    run_on(arguments, x.data(), dy.data(), output(arguments, 0));
  }
};

/// Of the level in use; empty where there is none.
WinogradLoops usable_loops() {
#if defined(__x86_64__)
  return usable_isa() == Isa::avx512 ? winograd_loops_avx512() : winograd_loops_avx2();
#else
  return {};
#endif
}

bool offers(const KernelRequest& request, const ConvolutionGeometry& geometry) {
  return request.inputs[0].dtype == DType::float32 && usable_isa() != Isa::none && applies(geometry) &&
         is_faster(problem(request.op, geometry));
}

/// All of the sum; empty where so many tiles are summed that little is gained.
std::optional<WinogradSum> sum_of_kernel_grads(const KernelRequest& request) {
  const JoinedOps joined = *joined_ops(request);
  const KernelRequest one = joined.first(request);
  const ConvolutionGeometry geometry(one);
  const auto arrays = static_cast<std::int64_t>(joined.count);
  if (!std::has_single_bit(static_cast<std::uint64_t>(arrays)) || arrays > std::int64_t{most_winograd_arrays} ||
      !offers(one, geometry)) {
    return {};
  }
  WinogradSum sum{problem(one.op, geometry), arrays, {}, 0};
  sum.one.tiles_at_once = sum.one.tiles();
  sum.part = {0, sum.one.channels, 0, sum.one.features};
  constexpr std::int64_t most_floats = std::int64_t{1} << 18, most_features = 128, least_features = 64;  // measured
  const std::int64_t floats_a_feature = winograd_planes * sum.one.tiles() * arrays;
  sum.features_at_once = std::min(most_floats / floats_a_feature / lanes * lanes, most_features);
  if (sum.features_at_once < least_features) return {};
  return sum;
}

}  // namespace

std::unique_ptr<Kernel> make_winograd(const KernelRequest& request, const ConvolutionGeometry& geometry) {
  if (!offers(request, geometry)) return nullptr;
  const Winograd w = problem(request.op, geometry);
  if (request.op == "conv_kernel_grad") return std::make_unique<WinogradKernelGrad>(usable_loops(), w);
  return std::make_unique<WinogradConvolution>(usable_loops(), w);
}

std::unique_ptr<Kernel> make_winograd_of_shards(const KernelRequest& request) {
  const JoinedOps joined = *joined_ops(request);
  const KernelRequest one = joined.first(request);
  const ConvolutionGeometry geometry(one);
  if (joined.count > most_winograd_arrays || !offers(one, geometry)) return nullptr;
  const Winograd apart = problem(one.op, geometry);
  const Winograd together = problem(one.op, geometry, static_cast<std::int64_t>(joined.count));
  constexpr double least_gain = 0.1;
  if (cycles(apart) - cycles(together) < least_gain * cycles(apart)) return nullptr;
  return std::make_unique<WinogradConvolutions>(usable_loops(), together);
}

std::unique_ptr<Kernel> make_sum_of_kernel_grads(const KernelRequest& request) {
  const std::optional<WinogradSum> sum = sum_of_kernel_grads(request);
  return sum.has_value() ? std::make_unique<WinogradSumOfKernelGrads>(usable_loops(), *sum) : nullptr;
}

std::vector<std::unique_ptr<Kernel>> make_sum_of_kernel_grads_parts(const KernelRequest& request) {
  std::vector<std::unique_ptr<Kernel>> parts;
  const std::optional<WinogradSum> sum = sum_of_kernel_grads(request);
  const Winograd& w = sum->one;
  // Blocks of features, and where these are few and deep, of channels too, for which dy is transformed again.
  constexpr std::int64_t least_parts = 4, least_channels = 64;
  const std::int64_t size = winograd_planes * w.tiles() * sum->arrays * w.channels * w.features;
  const std::int64_t wide = (w.features + sum->features_at_once - 1) / sum->features_at_once;
  const std::int64_t most_deep = std::min(w.channels / least_channels, size / least_part);
  const std::int64_t deep = std::clamp<std::int64_t>(most_deep, 1, (least_parts + wide - 1) / wide);
  const std::int64_t channels = (w.channels + deep - 1) / deep;
  const std::int64_t step =
      (channels + winograd_channels_at_once - 1) / winograd_channels_at_once * winograd_channels_at_once;
  if (wide * deep < 2) return parts;
  for (std::int64_t f = 0; f < w.features; f += sum->features_at_once) {
    for (std::int64_t c = 0; c < w.channels; c += step) {
      WinogradSum part = *sum;
      part.part = {c, std::min(step, w.channels - c), f, std::min(sum->features_at_once, w.features - f)};
      parts.push_back(std::make_unique<WinogradSumOfKernelGrads>(usable_loops(), part));
    }
  }
  return parts;
}

}  // namespace lockstep::backends::onednn
