#include "backends/cpu/convolutions/ordered_conv.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <lockstep/backend/isa.h>

#include "backends/cpu/convolutions/convolution_geometry.h"
#include "backends/cpu/convolutions/plain_conv.h"
#include "backends/cpu/products/gemv_blocks.h"
#include "backends/cpu/scratch.h"

namespace lockstep::backend::cpu {

namespace {

#if defined(__x86_64__)

/// A convolution as products of matrices: the windows of an image's places of y, one a row, and the kernel.
class OrderedConv : public Kernel {
 public:
  explicit OrderedConv(const ConvolutionGeometry& geometry)
      : images_(geometry.x[0]),
        groups_(geometry.groups),
        features_(geometry.kernel.dim(-2)),
        out_features_(geometry.kernel.dim(-1) / geometry.groups),
        window_(geometry.window_size()),
        in_places_(geometry.x.size() / (geometry.x[0] * geometry.x.dim(-1))),
        out_places_(geometry.y.size() / (geometry.y[0] * geometry.y.dim(-1))) {
    note_places(geometry);
    windows_ = reserve(out_places_ * depth());
  }

  std::size_t scratch_bytes() const override { return reserved_; }

 protected:
  std::int64_t depth() const { return window_ * features_; }
  std::int64_t x_row() const { return features_ * groups_; }
  std::int64_t y_row() const { return out_features_ * groups_; }
  std::size_t reserve(std::int64_t elements) {
    return std::exchange(reserved_, reserved_ + whole_lines(static_cast<std::size_t>(elements) * sizeof(float)));
  }
  float* windows(const KernelArguments& arguments) const { return at<float>(arguments, windows_); }

  /// Of x, the features of one group of an image: [place of y, place of the window, feature].
  void gather_windows(const float* x, float* to) const {
    for (const std::int64_t place : places_) {
      if (place < 0) {
        std::fill_n(to, features_, 0.0F);
      } else {
        std::copy_n(x + place * x_row(), features_, to);
      }
      to += features_;
    }
  }
  /// The reverse: what each place of the window says of x is added, one after the other.
  void add_windows(const float* from, float* x) const {
    for (const std::int64_t place : places_) {
      if (place >= 0) {
        float* const row = x + place * x_row();
        for (std::int64_t c = 0; c < features_; ++c) row[c] += from[c];
      }
      from += features_;
    }
  }

  static void multiply(const RowsProduct& product) {
    static const auto widest = usable_isa() == Isa::avx512 ? multiply_gemv_avx512 : multiply_gemv_avx2;
    widest(product);
  }

  /// Calls visit(x of the image and group, y likewise, group).
  template <class X, class Y, class Visit>
  void for_each_group(X* x, Y* y, const Visit& visit) const {
    for (std::int64_t n = 0; n < images_; ++n, x += in_places_ * x_row(), y += out_places_ * y_row()) {
      for (std::int64_t g = 0; g < groups_; ++g) visit(x + g * features_, y + g * out_features_, n, g);
    }
  }

  std::int64_t images_, groups_, features_, out_features_, window_, in_places_, out_places_;

 private:
  void note_places(const ConvolutionGeometry& geometry) {
    const int rank = geometry.spatial_rank();
    places_.reserve(static_cast<std::size_t>(out_places_ * window_));
    for (std::int64_t o = 0; o < out_places_; ++o) {
      for (std::int64_t w = 0; w < window_; ++w) {
        std::int64_t place = 0, weight = 1, rest_o = o, rest_w = w;
        for (int d = rank - 1; d >= 0 && place >= 0; --d) {
          const Side side = geometry.side(d);
          const std::int64_t at = rest_o % side.y * side.stride + rest_w % side.window * side.dilation - side.low;
          place = at < 0 || at >= side.x ? -1 : place + at * weight;
          weight *= side.x;
          rest_o /= side.y;
          rest_w /= side.window;
        }
        places_.push_back(place);
      }
    }
  }

  std::vector<std::int64_t> places_;  ///< Of x, for each place of y and of the window; -1 in the padding.
  std::size_t windows_ = 0;
  std::size_t reserved_ = 0;
};

class OrderedForward final : public OrderedConv {
 public:
  using OrderedConv::OrderedConv;

  void run(const KernelArguments& arguments) const override {
    const float* const kernel = static_cast<const float*>(arguments.inputs[1].data);
    float* const rows = windows(arguments);
    for_each_group(static_cast<const float*>(arguments.inputs[0].data), static_cast<float*>(arguments.outputs[0].data),
                   [&](const float* x, float* y, std::int64_t, std::int64_t group) {
                     gather_windows(x, rows);
                     multiply({.a = rows,
                               .b = kernel + group * out_features_,
                               .result = y,
                               .rows = out_places_,
                               .columns = out_features_,
                               .depth = depth(),
                               .a_row = depth(),
                               .a_depth = 1,
                               .b_depth = y_row(),
                               .b_column = 1,
                               .result_row = y_row()});
                   });
  }
};

class OrderedKernelGrad final : public OrderedConv {
 public:
  using OrderedConv::OrderedConv;

  void run(const KernelArguments& arguments) const override {
    float* const kernel = static_cast<float*>(arguments.outputs[0].data);
    float* const rows = windows(arguments);
    for_each_group(static_cast<const float*>(arguments.inputs[0].data),
                   static_cast<const float*>(arguments.inputs[1].data),
                   [&](const float* x, const float* y, std::int64_t image, std::int64_t group) {
                     gather_windows(x, rows);
                     multiply({.a = rows,
                               .b = y,
                               .result = kernel + group * out_features_,
                               .rows = depth(),
                               .columns = out_features_,
                               .depth = out_places_,
                               .a_row = 1,
                               .a_depth = depth(),
                               .b_depth = y_row(),
                               .b_column = 1,
                               .result_row = y_row(),
                               .adds = image > 0});
                   });
  }
};

class OrderedInputGrad final : public OrderedConv {
 public:
  explicit OrderedInputGrad(const ConvolutionGeometry& geometry)
      : OrderedConv(geometry), turned_(reserve(depth() * y_row())) {}

  void run(const KernelArguments& arguments) const override {
    const float* const kernel = static_cast<const float*>(arguments.inputs[1].data);
    float* const turned = at<float>(arguments, turned_);  // [group, feature of y, place of the window, feature of x]
    for (std::int64_t o = 0; o < y_row(); ++o) {
      for (std::int64_t k = 0; k < depth(); ++k) turned[o * depth() + k] = kernel[k * y_row() + o];
    }
    float* const all = static_cast<float*>(arguments.outputs[0].data);
    std::fill_n(all, images_ * in_places_ * x_row(), 0.0F);
    float* const rows = windows(arguments);
    for_each_group(all, static_cast<const float*>(arguments.inputs[0].data),
                   [&](float* x, const float* y, std::int64_t, std::int64_t group) {
                     multiply({.a = y,
                               .b = turned + group * out_features_ * depth(),
                               .result = rows,
                               .rows = out_places_,
                               .columns = depth(),
                               .depth = out_features_,
                               .a_row = y_row(),
                               .a_depth = 1,
                               .b_depth = depth(),
                               .b_column = 1,
                               .result_row = depth()});
                     add_windows(rows, x);
                   });
  }

 private:
  std::size_t turned_;
};

#endif

}  // namespace

std::unique_ptr<Kernel> make_ordered_conv(const KernelRequest& request) {
#if defined(__x86_64__)
  if (usable_isa() != Isa::none && request.inputs[0].dtype == DType::float32) {
    const ConvolutionGeometry geometry(request);
    if (request.op == "conv_kernel_grad") return std::make_unique<OrderedKernelGrad>(geometry);
    if (request.op == "conv_input_grad") return std::make_unique<OrderedInputGrad>(geometry);
    return std::make_unique<OrderedForward>(geometry);
  }
#endif
  return make_plain_conv(request);
}

}  // namespace lockstep::backend::cpu
