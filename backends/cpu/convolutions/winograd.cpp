#include "backends/cpu/convolutions/winograd.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include <lockstep/backend/grouped_kernels.h>
#include <lockstep/backend/isa.h>
#include <lockstep/backend/round_up.h>
#include <lockstep/backend/row_kernels.h>

#include "backends/cpu/convolutions/winograd_grads.h"
#include "backends/cpu/parts.h"
#include "backends/cpu/scratch.h"

namespace lockstep::backend::cpu {

namespace {

bool is_narrow(const KernelRequest& request) { return request.inputs[0].dtype == DType::bfloat16; }

/// The convolution itself, or the one that gives x's gradient: of dy, padded so that each window which has held a place
/// of x is there, with the kernel turned. In tiles of so many places a side, of so many arrays of this geometry.
Winograd problem(std::string_view op, const ConvolutionGeometry& g, std::int64_t places, std::int64_t arrays = 1) {
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
             .places = places,
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
  const std::int64_t floats_a_tile = w.planes() * (whole_vectors(w.channels) + whole_vectors(columns));
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

double as_double(std::int64_t n) { return static_cast<double>(n); }

double products_a_place(const Winograd& w) { return as_double(w.channels * whole_vectors(w.features)); }

/// Cycles that a tile takes: a pair of channels of the window for its transformation, a channel of x, one of y, what is
/// beside them; and products a cycle where features are a single vector.
struct TileCosts {
  double large_window, window, x, y, rest, thin_products;
};

const TileCosts& costs(const Winograd& w) {
  static constexpr TileCosts of_2{12, 8, 4.5, 3, 130, 20}, of_4{33, 22, 11, 7.5, 0, 30};  // measured
  return w.places == TilesOf2::places ? of_2 : of_4;
}

/// What the window's transformation takes, in cycles a tile.
double window_cycles(const Winograd& w) {
  const TileCosts& c = costs(w);
  return products_a_place(w) *
         (is_large(w) ? c.large_window / as_double(w.tiles_at_once) : c.window / as_double(w.tiles()));
}

/// All that a tile takes.
double cycles(const Winograd& w) {
  const TileCosts& c = costs(w);
  const double products = as_double(w.planes()) * products_a_place(w) / (w.features > lanes ? 30 : c.thin_products);
  const double transforms = c.x * as_double(whole_vectors(w.channels)) + c.y * as_double(whole_vectors(w.features));
  return products + c.rest + transforms + window_cycles(w);
}

/// Products of a tile's places by the definition.
double direct_products(const Winograd& w) {
  return 9 * as_double(w.images * w.y_height * w.y_width) / as_double(w.tiles()) * products_a_place(w);
}

/// What a tile's places take else: by oneDNN's convolutions, or as one product where images are small (window_product.h).
double direct_cycles(const Winograd& w) { return direct_products(w) / (w.y_width <= 4 ? 25 : 30.5); }

/// In pairs of bfloat16.
double direct_cycles_of_pairs(const Winograd& w) {
  return direct_products(w) / (w.features > lanes ? 58 : 50);  // measured
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
  const Problem& problem() const { return problem_; }

 private:
  Run run_;
  Problem problem_;
  std::size_t scratch_bytes_;
};

class WinogradConvolution final : public WinogradKernel<decltype(WinogradLoops::convolve), Winograd, ImageKernel> {
 public:
  WinogradConvolution(const WinogradLoops& loops, const Winograd& problem)
      : WinogradKernel(loops.convolve, problem, winograd_convolve_floats(problem)), loops_(loops) {}

  void run_for(const KernelArguments& arguments, RowReader* reader) const override {
    const void* const x = arguments.inputs[0].data;
    void* const y = arguments.outputs[0].data;
    const PlacesReader places{[](void* self, std::int64_t first, std::int64_t as_double) {
                                static_cast<RowReader*>(self)->read(first, as_double);
                              },
                              reader};
    run_on(arguments, &x, arguments.inputs[1].data, &y, reader == nullptr ? nullptr : &places);
  }

  /// A tile is the same whichever others are made with it.
  std::int64_t images_at_once() const override { return 1; }
  std::unique_ptr<Kernel> of_images(std::int64_t as_double) const override {
    Winograd some = problem();
    some.images = some.images_an_array = as_double;
    some.tiles_at_once = std::min(some.tiles_at_once, some.tiles());
    return std::make_unique<WinogradConvolution>(loops_, some);
  }

 private:
  WinogradLoops loops_;
};

/// x of several arrays, the window, y of as many.
class WinogradConvolutions final : public WinogradKernel<decltype(WinogradLoops::convolve), Winograd> {
 public:
  WinogradConvolutions(const WinogradLoops& loops, const Winograd& problem)
      : WinogradKernel(loops.convolve, problem, winograd_convolve_floats(problem)) {}

  void run(const KernelArguments& arguments) const override {
    std::array<const void*, most_winograd_arrays> x;
    std::array<void*, most_winograd_arrays> y;
    const std::size_t arrays = arguments.outputs.size();
    for (std::size_t i = 0; i < arrays; ++i) {
      x[i] = arguments.inputs[i].data;
      y[i] = arguments.outputs[i].data;
    }
    run_on(arguments, x.data(), arguments.inputs[arrays].data, y.data(), static_cast<const PlacesReader*>(nullptr));
  }
};

class WinogradKernelGrad final : public WinogradKernel<decltype(WinogradLoops::kernel_grad), Winograd> {
 public:
  WinogradKernelGrad(const WinogradLoops& loops, const Winograd& problem)
      : WinogradKernel(loops.kernel_grad, problem, winograd_kernel_grad_floats(problem)) {}

  void run(const KernelArguments& arguments) const override {
    run_on(arguments, arguments.inputs[0].data, arguments.inputs[1].data,
           static_cast<float*>(arguments.outputs[0].data));
  }
};

/// x and y's gradient of one array after the other, the sum of the window's gradients.
class WinogradSumOfKernelGrads final : public WinogradKernel<decltype(WinogradLoops::sum_kernel_grads), WinogradSum> {
 public:
  WinogradSumOfKernelGrads(const WinogradLoops& loops, const WinogradSum& sum)
      : WinogradKernel(loops.sum_kernel_grads, sum, winograd_sum_floats(sum)) {}

  void run(const KernelArguments& arguments) const override {
    std::array<const void*, most_winograd_arrays> x, dy;
    for (std::size_t i = 0; i < arguments.inputs.size() / 2; ++i) {
      x[i] = arguments.inputs[2 * i].data;
      dy[i] = arguments.inputs[2 * i + 1].data;
    }
    run_on(arguments, x.data(), dy.data(), static_cast<float*>(arguments.outputs[0].data));
  }
};

/// Of the level in use; empty where there is none.
WinogradLoops usable_winograd_loops(bool is_narrow) {
#if defined(__x86_64__)
  return (usable_isa() == Isa::avx512 ? winograd_loops_avx512 : winograd_loops_avx2)(is_narrow);
#else
  return {};
#endif
}

/// Whether tiles of 4 x 4 take fewer cycles than what else there is for bfloat16: pairs, or float32's kernels.
bool is_faster_than_bfloat16(Bfloat16Products products, const Winograd& w, const Winograd& of_2) {
  if (products == Bfloat16Products::pairs) return cycles(w) < direct_cycles_of_pairs(w);
  if (products == Bfloat16Products::tiles) return false;
  return cycles(w) < std::min(direct_cycles(w), cycles(of_2) * as_double(of_2.tiles()) / as_double(w.tiles()));
}

/// The tiles that a request is made in, of several arrays at once; empty where these are not faster for one.
std::optional<Winograd> tiles_of(const KernelRequest& request, const ConvolutionGeometry& g, Bfloat16Products products,
                                 std::int64_t arrays = 1) {
  const bool has_its_own_order = request.attrs.has("sum_blocks");
  if (usable_isa() == Isa::none || has_its_own_order || !applies(g)) return {};
  const DType dtype = request.inputs[0].dtype;
  const Winograd of_2 = problem(request.op, g, TilesOf2::places);
  if (dtype == DType::float32 && cycles(of_2) < direct_cycles(of_2)) {
    return problem(request.op, g, TilesOf2::places, arrays);
  }
  const DType result = request.op == "conv_kernel_grad" ? DType::float32 : dtype;
  if (dtype == DType::bfloat16 && request.outputs[0].dtype == result &&
      is_faster_than_bfloat16(products, problem(request.op, g, TilesOf4::places), of_2)) {
    return problem(request.op, g, TilesOf4::places, arrays);
  }
  return {};
}

/// All of the sum; empty where so many tiles are summed that little is gained.
std::optional<WinogradSum> sum_of_kernel_grads(const KernelRequest& request, Bfloat16Products products) {
  const GroupedKernels grouped = grouped_sum(request, "conv_kernel_grad");
  const KernelRequest one = grouped.first(request);
  const auto arrays = static_cast<std::int64_t>(grouped.count);
  const std::optional<Winograd> tiles = tiles_of(one, ConvolutionGeometry(one), products);
  const bool is_tree = std::has_single_bit(static_cast<std::uint64_t>(arrays));
  if (!tiles.has_value() || is_narrow(one) || !is_tree || arrays > std::int64_t{most_winograd_arrays}) return {};
  WinogradSum sum{*tiles, arrays, {}, 0};
  sum.one.tiles_at_once = sum.one.tiles();
  sum.part = {0, sum.one.channels, 0, sum.one.features};
  constexpr std::int64_t most_floats = std::int64_t{1} << 18, most_features = 128, least_features = 64;  // measured
  const std::int64_t floats_a_feature = sum.one.planes() * sum.one.tiles() * arrays;
  sum.features_at_once = std::min(most_floats / floats_a_feature / lanes * lanes, most_features);
  if (sum.features_at_once < least_features) return {};
  return sum;
}

}  // namespace

std::unique_ptr<Kernel> make_winograd(const KernelRequest& request, const ConvolutionGeometry& geometry,
                                      Bfloat16Products products) {
  const std::optional<Winograd> w = tiles_of(request, geometry, products);
  if (!w.has_value()) return nullptr;
  const WinogradLoops loops = usable_winograd_loops(is_narrow(request));
  if (request.op == "conv_kernel_grad") return std::make_unique<WinogradKernelGrad>(loops, *w);
  return std::make_unique<WinogradConvolution>(loops, *w);
}

std::unique_ptr<Kernel> make_winograd_of_shards(const KernelRequest& request, Bfloat16Products products) {
  const bool is_forward = request.op == "conv_of_shards";
  const GroupedKernels grouped = grouped_shards(request, is_forward ? "conv" : "conv_input_grad");
  const KernelRequest one = grouped.first(request);
  const ConvolutionGeometry geometry(one);
  const std::optional<Winograd> apart = tiles_of(one, geometry, products);
  if (grouped.count > most_winograd_arrays || !apart.has_value()) return nullptr;
  const Winograd together = *tiles_of(one, geometry, products, static_cast<std::int64_t>(grouped.count));
  constexpr double least_gain = 0.1;
  if (cycles(*apart) - cycles(together) < least_gain * cycles(*apart)) return nullptr;
  return std::make_unique<WinogradConvolutions>(usable_winograd_loops(is_narrow(one)), together);
}

std::unique_ptr<Kernel> make_sum_of_kernel_grads(const KernelRequest& request, Bfloat16Products products) {
  const std::optional<WinogradSum> sum = sum_of_kernel_grads(request, products);
  return sum.has_value() ? std::make_unique<WinogradSumOfKernelGrads>(usable_winograd_loops(false), *sum) : nullptr;
}

std::vector<std::unique_ptr<Kernel>> make_sum_of_kernel_grads_parts(const KernelRequest& request,
                                                                    Bfloat16Products products) {
  std::vector<std::unique_ptr<Kernel>> parts;
  const std::optional<WinogradSum> sum = sum_of_kernel_grads(request, products);
  const Winograd& w = sum->one;
  // Blocks of features, and where these are few and deep, of channels too, for which dy is transformed again.
  constexpr std::int64_t least_parts = 4, least_channels = 64;
  const std::int64_t size = w.planes() * w.tiles() * sum->arrays * w.channels * w.features;
  const std::int64_t wide = ceil_div(w.features, sum->features_at_once);
  const std::int64_t most_deep = std::min(w.channels / least_channels, size / least_part);
  const std::int64_t deep = std::clamp<std::int64_t>(most_deep, 1, ceil_div<std::int64_t>(least_parts, wide));
  const std::int64_t channels = ceil_div(w.channels, deep);
  const std::int64_t step = round_up<std::int64_t>(channels, winograd_channels_at_once);
  if (wide * deep < 2) return parts;
  for (std::int64_t f = 0; f < w.features; f += sum->features_at_once) {
    for (std::int64_t c = 0; c < w.channels; c += step) {
      WinogradSum part = *sum;
      part.part = {c, std::min(step, w.channels - c), f, std::min(sum->features_at_once, w.features - f)};
      parts.push_back(std::make_unique<WinogradSumOfKernelGrads>(usable_winograd_loops(false), part));
    }
  }
  return parts;
}

}  // namespace lockstep::backend::cpu
