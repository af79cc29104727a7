#include "backends/cpu/convolutions/bfloat16_grads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <lockstep/backend/round_up.h>
#include <lockstep/backend/row_kernels.h>

#include "backends/cpu/parts.h"
#include "backends/cpu/products/bfloat16_arrays.h"
#include "backends/cpu/products/bfloat16_loops.h"
#include "backends/cpu/scratch.h"

namespace lockstep::backend::cpu {

namespace {

#if defined(__x86_64__)

/// Places of x along a side, `step` apart, to which the same places of the window have led.
struct Phase {
  struct Place {
    std::int64_t window, y;  ///< y: that which the first of them has led to, perhaps one that is not there.
  };
  std::int64_t first = 0, step = 1, count = 0;
  std::vector<Place> places;
};

std::vector<Phase> phases_of(const Side& side) {
  std::vector<Phase> phases;
  for (std::int64_t first = 0; first < std::min(side.stride, side.x); ++first) {
    const std::int64_t count = ceil_div(side.x - first, side.stride);
    Phase phase{.first = first, .step = side.stride, .count = count, .places = {}};
    for (std::int64_t i = 0; i < side.window; ++i) {
      const std::int64_t reach = first + side.low - i * side.dilation;
      if (reach % side.stride == 0) phase.places.push_back({i, reach / side.stride});
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

/// The extent of y along a side with the border that sums reach into.
struct Border {
  std::int64_t low = 0, extent = 0;
};

Border border_of(const std::vector<Phase>& phases) {
  std::int64_t low = 0, end = 1;
  for (const Phase& phase : phases) {
    for (const Phase::Place& place : phase.places) {
      low = std::max(low, -place.y);
      end = std::max(end, place.y + phase.count);
    }
  }
  return {low, low + end};
}

/// The gradient of x, an image at a time, from dy with zeros around it.
class Bfloat16InputGrad final : public RowWriter {
 public:
  explicit Bfloat16InputGrad(const ConvolutionGeometry& g)
      : images_(g.x[0]),
        x_channels_(g.x.dim(-1)),
        y_channels_(g.y.dim(-1)),
        rows_(g.side(g.spatial_rank() - 2)),
        columns_(g.side(g.spatial_rank() - 1)) {
    const std::vector<Phase> rows = phases_of(rows_), columns = phases_of(columns_);
    above_ = border_of(rows), left_ = border_of(columns);
    for (const Phase& r : rows) {
      for (const Phase& c : columns) add_part(r, c);
    }
    image_ = scratch_.add((above_.extent * left_.extent * paired_channels() + 1) / 2);
  }

  void run_for(const KernelArguments& arguments, RowReader* reader) const override {
    const auto* kernel = static_cast<const std::uint16_t*>(arguments.inputs[1].data);
    for (const Part& part : parts_) pack_weights(part, kernel, at<std::uint32_t>(arguments, part.weights));
    auto* image = at<std::uint16_t>(arguments, image_);
    std::fill_n(image, above_.extent * left_.extent * paired_channels(), std::uint16_t{0});
    const auto* dy = static_cast<const std::uint16_t*>(arguments.inputs[0].data);
    auto* dx = static_cast<std::uint16_t*>(arguments.outputs[0].data);
    const std::int64_t places = rows_.x * columns_.x;
    for (std::int64_t n = 0; n < images_; ++n) {
      pack_image(dy + n * rows_.y * columns_.y * y_channels_, image);
      for (const Part& part : parts_) {
        correlate_pairs(part.sums, image, at<std::uint32_t>(arguments, part.weights),
                        dx + n * places * x_channels_ + part.to);
      }
      if (reader != nullptr) reader->read(n * places, places);
    }
  }

  std::size_t scratch_bytes() const override { return scratch_.bytes(); }

 private:
  /// Places of x whose sums have the same places of the window.
  struct Part {
    Bfloat16Correlation sums;
    std::vector<std::int64_t> windows;  ///< By which each of the sums' places is multiplied.
    std::int64_t to;                    ///< Where the first of them lies.
    std::size_t weights;
  };

  /// A last channel without its partner gets one.
  std::int64_t paired_channels() const { return (y_channels_ + 1) / 2 * 2; }

  void add_part(const Phase& r, const Phase& c) {
    const std::int64_t x_row = columns_.x * x_channels_, dy_row = left_.extent * paired_channels();
    Part part{.sums = {.rows = r.count,
                       .columns = c.count,
                       .pairs = paired_channels() / 2,
                       .features = x_channels_,
                       .from_row = dy_row,
                       .from_column = paired_channels(),
                       .to_row = r.step * x_row,
                       .to_column = c.step * x_channels_,
                       .places = {}},
              .windows = {},
              .to = r.first * x_row + c.first * x_channels_,
              .weights = 0};
    for (const Phase::Place& i : r.places) {
      for (const Phase::Place& j : c.places) {
        part.sums.places.push_back((i.y + above_.low) * dy_row + (j.y + left_.low) * paired_channels());
        part.windows.push_back(i.window * columns_.window + j.window);
      }
    }
    part.weights = scratch_.add(part.sums.weights());
    parts_.push_back(std::move(part));
  }

  void pack_image(const std::uint16_t* dy, std::uint16_t* to) const {
    const std::int64_t rows = std::min(rows_.y, above_.extent - above_.low);
    const std::int64_t columns = std::min(columns_.y, left_.extent - left_.low);
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::uint16_t* row = dy + r * columns_.y * y_channels_;
      std::uint16_t* place = to + ((r + above_.low) * left_.extent + left_.low) * paired_channels();
      if (y_channels_ == paired_channels()) {
        std::memcpy(place, row, static_cast<std::size_t>(columns * y_channels_) * sizeof(std::uint16_t));
        continue;
      }
      for (std::int64_t c = 0; c < columns; ++c) {
        std::copy_n(row + c * y_channels_, y_channels_, place + c * paired_channels());
      }
    }
  }

  void pack_weights(const Part& part, const std::uint16_t* kernel, std::uint32_t* to) const {
    for (std::int64_t f = 0; f < x_channels_; f += lanes) {
      const std::int64_t count = std::min(lanes, x_channels_ - f);
      for (const std::int64_t place : part.windows) {
        const std::uint16_t* from = kernel + (place * x_channels_ + f) * y_channels_;
        for (std::int64_t c = 0; c < y_channels_; c += 2, to += lanes) {
          const bool has_second = c + 1 < y_channels_;
          for (std::int64_t k = 0; k < lanes; ++k) {
            const std::uint16_t* pair = from + k * y_channels_ + c;
            const std::uint32_t first = k < count ? pair[0] : 0U;
            const std::uint32_t second = k < count && has_second ? pair[1] : 0U;
            to[k] = first | second << 16;
          }
        }
      }
    }
  }

  std::int64_t images_, x_channels_, y_channels_;
  Side rows_, columns_;
  Border above_, left_;
  std::vector<Part> parts_;
  Scratch scratch_;
  std::size_t image_ = 0;
};

/// Of one image.
Bfloat16Grad gradient_of(const ConvolutionGeometry& g) {
  const Side rows = g.side(g.spatial_rank() - 2), columns = g.side(g.spatial_rank() - 1);
  return {.images = 1,
          .height = rows.x,
          .width = columns.x,
          .channels = g.x.dim(-1),
          .y_height = rows.y,
          .y_width = columns.y,
          .features = g.y.dim(-1),
          .window_height = rows.window,
          .window_width = columns.window,
          .stride_height = rows.stride,
          .stride_width = columns.stride,
          .dilation_height = rows.dilation,
          .dilation_width = columns.dilation,
          .low_height = rows.low,
          .low_width = columns.low};
}

class Bfloat16KernelGrad final : public Kernel {
 public:
  Bfloat16KernelGrad(const ConvolutionGeometry& geometry, DType result)
      : one_(gradient_of(geometry)), images_(geometry.x[0]), result_(result) {
    constexpr std::int64_t most_words = std::int64_t{1} << 17;  // half of a second-level cache
    at_once_ = equal_blocks(images_, most_words / (one_.x_image() + one_.dy_image()));
    x_ = scratch_.add(at_once_ * one_.x_image());
    dy_ = scratch_.add(at_once_ * one_.dy_image());
    gradient_ = scratch_.add(one_.gradient());
  }

  void run(const KernelArguments& arguments) const override {
    const auto* x = static_cast<const std::uint16_t*>(arguments.inputs[0].data);
    const auto* dy = static_cast<const std::uint16_t*>(arguments.inputs[1].data);
    auto* packed_x = at<std::uint32_t>(arguments, x_);
    auto* packed_dy = at<std::uint32_t>(arguments, dy_);
    Bfloat16Grad some = one_;
    for (std::int64_t first = 0; first < images_; first += at_once_) {
      some.images = std::min(at_once_, images_ - first);
      pack_pairs_of_x(some, x + first * one_.height * one_.width * one_.channels, packed_x);
      pack_pairs_of_dy(some, dy + first * one_.y_height * one_.y_width * one_.features, packed_dy);
      multiply_pairs(some, packed_x, packed_dy, at(arguments, gradient_), first == 0);
    }
    write(at(arguments, gradient_), arguments.outputs[0].data);
  }

  std::size_t scratch_bytes() const override { return scratch_.bytes(); }

 private:
  void write(const float* from, void* to) const {
    const std::int64_t rows = one_.window_height * one_.window_width * one_.channels;
    for (std::int64_t r = 0; r < rows; ++r, from += whole_vectors(one_.features)) {
      if (result_ == DType::float32) {
        std::memcpy(static_cast<float*>(to) + r * one_.features, from,
                    static_cast<std::size_t>(one_.features) * sizeof(float));
        continue;
      }
      narrow(from, one_.features, static_cast<std::uint16_t*>(to) + r * one_.features);
    }
  }

  Bfloat16Grad one_;
  std::int64_t images_, at_once_ = 1;
  DType result_;
  Scratch scratch_;
  std::size_t x_ = 0, dy_ = 0, gradient_ = 0;
};

/// All measured.
bool is_faster(const KernelRequest& request, const ConvolutionGeometry& g) {
  if (request.op == "conv_kernel_grad") {
    constexpr std::int64_t least_channels = 7;                   // fewer sums wait for each other
    constexpr std::int64_t most_floats = std::int64_t{1} << 17;  // more are read from afar, for each block of images
    return g.window_size() > 1 && g.x.dim(-1) >= least_channels && gradient_of(g).gradient() <= most_floats;
  }
  std::int64_t strides = 1;
  for (const std::int64_t stride : g.strides) strides *= stride;
  constexpr std::int64_t shortest_sum = 32, most_channels = 128;
  return strides > 1 && g.window_size() * g.y.dim(-1) / strides >= shortest_sum && g.x.dim(-1) <= most_channels;
}

#endif

}  // namespace

std::unique_ptr<Kernel> make_bfloat16_grad(const KernelRequest& request, const ConvolutionGeometry& geometry,
                                           Bfloat16Products products) {
#if defined(__x86_64__)
  const bool is_taken = request.op != "conv" && request.inputs[0].dtype == DType::bfloat16 && geometry.groups == 1 &&
                        geometry.spatial_rank() <= 2 && products == Bfloat16Products::pairs;
  if (!is_taken || !is_faster(request, geometry)) return nullptr;
  const DType result = request.outputs[0].dtype;
  if (request.op == "conv_kernel_grad") return std::make_unique<Bfloat16KernelGrad>(geometry, result);
  return result == DType::bfloat16 ? std::make_unique<Bfloat16InputGrad>(geometry) : nullptr;
#else
  static_cast<void>(request), static_cast<void>(geometry), static_cast<void>(products);
  return nullptr;
#endif
}

}  // namespace lockstep::backend::cpu
