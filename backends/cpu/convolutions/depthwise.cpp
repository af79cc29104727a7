#include "backends/cpu/convolutions/depthwise.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <lockstep/backend/isa.h>

#include "backends/cpu/convolutions/depthwise_blocks.h"
#include "backends/cpu/parts.h"
#include "backends/cpu/scratch.h"

namespace lockstep::backend::cpu {

namespace {

/// The loops of the level in use.
DepthwiseLoops usable_depthwise_loops() {
#if defined(__x86_64__)
  return usable_isa() == Isa::avx512 ? depthwise_loops_avx512() : depthwise_loops_avx2();
#else
  return {};
#endif
}

/// How the channels of an image lie in scratch: each as often as it has features, some places apart, behind a border.
struct PaddedImage {
  std::int64_t height = 1, width = 1;  ///< In scratch.
  Side rows, columns;                  ///< x: extent, stride: step in scratch, low: of the first place.
  std::int64_t channels = 0, repeats = 1, features = 0;

  std::int64_t floats() const { return height * width * features; }

  /// An image into scratch whose border is zero.
  void pack(const float* from, float* to) const {
    for (std::int64_t r = 0; r < rows.x; ++r) {
      const std::int64_t row = r * rows.stride + rows.low;
      for (std::int64_t c = 0; c < columns.x; ++c, from += channels) {
        const std::int64_t column = c * columns.stride + columns.low;
        if (row < 0 || row >= height || column < 0 || column >= width) continue;
        float* place = to + (row * width + column) * features;
        if (repeats == 1) {
          std::memcpy(place, from, static_cast<std::size_t>(channels) * sizeof(float));
        } else {
          for (std::int64_t k = 0; k < channels; ++k) std::fill_n(place + k * repeats, repeats, from[k]);
        }
      }
    }
  }

  /// Sums over each channel's features, of places one behind the other.
  void unpack(const float* from, std::int64_t places, float* to) const {
    for (std::int64_t p = 0; p < places; ++p, from += features, to += channels) {
      if (repeats == 1) {
        std::memcpy(to, from, static_cast<std::size_t>(channels) * sizeof(float));
        continue;
      }
      for (std::int64_t k = 0; k < channels; ++k) {
        float sum = 0;
        for (std::int64_t m = 0; m < repeats; ++m) sum += from[k * repeats + m];
        to[k] = sum;
      }
    }
  }
};

/// What the three kernels share.
struct Extents {
  explicit Extents(const ConvolutionGeometry& g)
      : images(g.x[0]),
        channels(g.x.dim(-1)),
        repeats(g.y.dim(-1) / channels),
        features(whole_vectors(g.y.dim(-1))),
        rows(g.side(g.spatial_rank() - 2)),
        columns(g.side(g.spatial_rank() - 1)) {
    // A place of y may be the only one, and x larger than what its windows reach.
    x.height = (rows.y - 1) * rows.stride + rows.reach() + 1;
    x.width = (columns.y - 1) * columns.stride + columns.reach() + 1;
    x.rows = {.x = rows.x, .stride = 1, .low = rows.low};
    x.columns = {.x = columns.x, .stride = 1, .low = columns.low};
    x.channels = channels;
    x.repeats = repeats;
    x.features = features;
    windows = {.width = x.width,
               .y_height = rows.y,
               .y_width = columns.y,
               .window_height = rows.window,
               .window_width = columns.window,
               .stride_height = rows.stride,
               .stride_width = columns.stride,
               .dilation_height = rows.dilation,
               .dilation_width = columns.dilation,
               .features = features};
  }

  std::int64_t x_image() const { return rows.x * columns.x * channels; }
  std::int64_t y_places() const { return rows.y * columns.y; }
  std::int64_t y_image() const { return y_places() * channels * repeats; }
  std::int64_t window_places() const { return rows.window * columns.window; }

  /// Of y's features as they are.
  PaddedImage of_features(const Side& of_rows, const Side& of_columns, std::int64_t height, std::int64_t width) const {
    return {height, width, of_rows, of_columns, channels * repeats, 1, features};
  }

  std::int64_t images, channels, repeats, features;
  Side rows, columns;
  PaddedImage x;
  Depthwise windows;
  DepthwiseLoops loops = usable_depthwise_loops();
};

/// The convolution, or the gradient of x: of y with places of zero between its own where windows are not next to each
/// other, with the window turned by half a turn.
class DepthwiseConvolution final : public ImageKernel {
 public:
  DepthwiseConvolution(const Extents& plan, bool gives_x) : plan_(plan), turned_(gives_x), windows_(plan.windows) {
    const Side one{};
    if (gives_x) {
      const auto spread = [](const Side& side) {
        return Side{.x = side.y, .stride = side.stride, .low = side.reach() - side.low};
      };
      from_ = plan.of_features(spread(plan.rows), spread(plan.columns), plan.rows.x + plan.rows.reach(),
                               plan.columns.x + plan.columns.reach());
      to_ = plan.x;
      windows_.width = from_.width;
      windows_.y_height = plan.rows.x;
      windows_.y_width = plan.columns.x;
      windows_.stride_height = windows_.stride_width = 1;
    } else {
      from_ = plan.x;
      to_ = plan.of_features(one, one, 1, 1);
    }
    from_image_ = gives_x ? plan.y_image() : plan.x_image();
    to_image_ = gives_x ? plan.x_image() : plan.y_image();
    is_direct_ = to_.repeats == 1 && to_.channels == to_.features;
    image_ = scratch_.add(from_.floats());
    window_ = scratch_.add(plan.window_places() * plan.features);
    result_ = scratch_.add(is_direct_ ? 0 : windows_.y_height * windows_.y_width * plan.features);
  }

  void run_for(const KernelArguments& arguments, RowReader* reader) const override {
    pack_window(static_cast<const float*>(arguments.inputs[1].data), at(arguments, window_));
    float* image = at(arguments, image_);
    std::fill_n(image, from_.floats(), 0.0F);
    const auto* from = static_cast<const float*>(arguments.inputs[0].data);
    auto* to = static_cast<float*>(arguments.outputs[0].data);
    const std::int64_t places = windows_.y_height * windows_.y_width;
    for (std::int64_t n = 0; n < plan_.images; ++n, from += from_image_, to += to_image_) {
      from_.pack(from, image);
      plan_.loops.correlate(windows_, image, at(arguments, window_), is_direct_ ? to : at(arguments, result_));
      if (!is_direct_) to_.unpack(at(arguments, result_), places, to);
      if (reader != nullptr) reader->read(n * places, places);
    }
  }

  std::size_t scratch_bytes() const override { return scratch_.bytes(); }
  std::int64_t images_at_once() const override { return 1; }
  std::unique_ptr<Kernel> of_images(std::int64_t count) const override {
    auto some = std::make_unique<DepthwiseConvolution>(*this);
    some->plan_.images = count;
    return some;
  }

 private:
  void pack_window(const float* from, float* to) const {
    const std::int64_t places = plan_.window_places(), given = plan_.channels * plan_.repeats;
    std::fill_n(to, places * plan_.features, 0.0F);
    for (std::int64_t p = 0; p < places; ++p) {
      std::memcpy(to + (turned_ ? places - 1 - p : p) * plan_.features, from + p * given,
                  static_cast<std::size_t>(given) * sizeof(float));
    }
  }

  Extents plan_;
  bool turned_;
  Depthwise windows_;
  PaddedImage from_, to_;
  std::int64_t from_image_ = 0, to_image_ = 0;
  bool is_direct_ = false;  ///< Whether the result is written where it belongs.
  Scratch scratch_;
  std::size_t image_ = 0, window_ = 0, result_ = 0;
};

class DepthwiseKernelGrad final : public Kernel {
 public:
  explicit DepthwiseKernelGrad(const Extents& plan)
      : plan_(plan),
        y_(plan.of_features({.x = plan.rows.y}, {.x = plan.columns.y}, plan.rows.y, plan.columns.y)),
        is_direct_(y_.channels == y_.features) {
    image_ = scratch_.add(plan.x.floats());
    gradient_ = scratch_.add(is_direct_ ? 0 : y_.floats());
    window_ = scratch_.add(plan.window_places() * plan.features);
  }

  void run(const KernelArguments& arguments) const override {
    float* image = at(arguments, image_);
    float* gradient = at(arguments, gradient_);
    float* window = at(arguments, window_);
    std::fill_n(image, plan_.x.floats(), 0.0F);
    std::fill_n(window, plan_.window_places() * plan_.features, 0.0F);
    if (!is_direct_) std::fill_n(gradient, y_.floats(), 0.0F);
    const auto* x = static_cast<const float*>(arguments.inputs[0].data);
    const auto* dy = static_cast<const float*>(arguments.inputs[1].data);
    for (std::int64_t n = 0; n < plan_.images; ++n, x += plan_.x_image(), dy += plan_.y_image()) {
      plan_.x.pack(x, image);
      if (!is_direct_) y_.pack(dy, gradient);
      plan_.loops.gradient(plan_.windows, image, is_direct_ ? dy : gradient, window);
    }
    y_.unpack(window, plan_.window_places(), static_cast<float*>(arguments.outputs[0].data));
  }

  std::size_t scratch_bytes() const override { return scratch_.bytes(); }

 private:
  Extents plan_;
  PaddedImage y_;
  bool is_direct_;  ///< Whether y's gradient is read where it lies.
  Scratch scratch_;
  std::size_t image_ = 0, gradient_ = 0, window_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_depthwise(const KernelRequest& request, const ConvolutionGeometry& geometry) {
  if (!geometry.is_depthwise() || geometry.spatial_rank() > 2 || request.inputs[0].dtype != DType::float32)
    return nullptr;
  if (usable_isa() == Isa::none) return nullptr;
  const Extents plan(geometry);
  // Measured: with more features a channel, oneDNN's loops, a vector of features each, have enough to do.
  constexpr std::int64_t most_repeats = 4;
  const bool sums_features = request.op == "conv_input_grad" && geometry.window_size() > 1;
  if (plan.repeats > most_repeats && !sums_features) return nullptr;
  if (request.op == "conv_kernel_grad") return std::make_unique<DepthwiseKernelGrad>(plan);
  return std::make_unique<DepthwiseConvolution>(plan, request.op == "conv_input_grad");
}

}  // namespace lockstep::backend::cpu
