#include "backends/onednn/window_product.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/kernels.h"
#include "backends/vector_variants.h"

namespace lockstep::backends::onednn {

namespace {

/// Where the windows of all places of y lie in x; always of three spatial dimensions, outer ones of extent 1.
struct Windows {
  using Dims = std::array<std::int64_t, 3>;

  explicit Windows(const ConvolutionGeometry& g) : images(g.x[0]), channels(g.x.dim(-1)) {
    const int first = 3 - g.spatial_rank();
    for (int d = 0; d < g.spatial_rank(); ++d) {
      const auto to = static_cast<std::size_t>(first + d);
      const auto from = static_cast<std::size_t>(d);
      x[to] = g.x[d + 1];
      y[to] = g.y[d + 1];
      window[to] = g.kernel[d];
      strides[to] = g.strides[from];
      dilation[to] = g.dilation[from];
      low[to] = g.low[from];
    }
  }

  std::int64_t images, channels;
  Dims x{1, 1, 1}, y{1, 1, 1}, window{1, 1, 1}, strides{1, 1, 1}, dilation{1, 1, 1}, low{};
};

/// Calls visit(i, j, k) for all indices below the extents, row-major.
template <class Visit>
void for_each_index(const Windows::Dims& extents, Visit visit) {
  for (std::int64_t i = 0; i < extents[0]; ++i) {
    for (std::int64_t j = 0; j < extents[1]; ++j) {
      for (std::int64_t k = 0; k < extents[2]; ++k) visit(i, j, k);
    }
  }
}

/// Calls visit(place), row-major over images, places of y and places of its window: where in x, or -1 for padding.
template <class Visit>
void for_each_place(const Windows& w, Visit visit) {
  for (std::int64_t image = 0; image < w.images; ++image) {
    for_each_index(w.y, [&](std::int64_t a, std::int64_t b, std::int64_t c) {
      for_each_index(w.window, [&](std::int64_t i, std::int64_t j, std::int64_t k) {
        const Windows::Dims at = {a * w.strides[0] + i * w.dilation[0] - w.low[0],
                                  b * w.strides[1] + j * w.dilation[1] - w.low[1],
                                  c * w.strides[2] + k * w.dilation[2] - w.low[2]};
        const bool inside =
            at[0] >= 0 && at[0] < w.x[0] && at[1] >= 0 && at[1] < w.x[1] && at[2] >= 0 && at[2] < w.x[2];
        visit(inside ? (((image * w.x[0] + at[0]) * w.x[1] + at[1]) * w.x[2] + at[2]) * w.channels : -1);
      });
    });
  }
}

void lay_out(const Windows& w, const float* x, float* columns) {
  const std::size_t nbytes = static_cast<std::size_t>(w.channels) * sizeof(float);
  for_each_place(w, [&](std::int64_t place) {
    if (place < 0) {
      std::memset(columns, 0, nbytes);
    } else {
      std::memcpy(columns, x + place, nbytes);
    }
    columns += w.channels;
  });
}

void add_up(const Windows& w, const float* columns, float* x) {
  std::fill_n(x, w.images * w.x[0] * w.x[1] * w.x[2] * w.channels, 0.0F);
  for_each_place(w, [&](std::int64_t place) {
    if (place >= 0) {
      for (std::int64_t c = 0; c < w.channels; ++c) x[place + c] += columns[c];
    }
    columns += w.channels;
  });
}

void add_up_windows(const Windows& w, const float* columns, float* x) {
  static const auto widest = VectorVariants<add_up>::chosen();
  widest(w, columns, x);
}

/// All measured, against oneDNN's convolutions.
bool is_faster(std::string_view op, const ConvolutionGeometry& g) {
  const std::int64_t width = g.y.dim(-2);
  const bool kernel_grad = op == "conv_kernel_grad";
  if (g.window_size() == 1) return width <= (g.is_strided() && !kernel_grad ? 8 : 4);
  // Where the kernel's gradient, or all of a kernel, is far larger than the images.
  constexpr std::int64_t large = std::int64_t{1} << 19, medium = std::int64_t{1} << 15;
  if (width > 4) return false;
  if (g.kernel.size() >= large) return true;
  return kernel_grad ? width <= 2 && g.kernel.size() >= medium : op == "conv_input_grad" && g.is_strided();
}

class WindowProduct final : public Kernel {
 public:
  explicit WindowProduct(const ConvolutionGeometry& geometry) : windows_(geometry) {}

  /// False where the product is better left to others.
  bool prepare(const KernelRequest& request, const ConvolutionGeometry& g) {
    const std::int64_t features = g.y.dim(-1);
    const std::int64_t depth = g.kernel.size() / features;
    const std::int64_t rows = g.y.size() / features;
    const Shape columns{rows, depth}, kernel{depth, features}, y{rows, features};
    const bool as_it_lies = columns.size() == g.x.size() && g.window_size() == 1 && !g.is_strided();
    columns_bytes_ = as_it_lies ? 0 : whole_lines(static_cast<std::size_t>(columns.size()) * sizeof(float));
    if (request.op == "conv") {
      run_ = &WindowProduct::forward;
      product_ = make_product(request.device, columns, kernel, {1, 0}, y);
    } else if (request.op == "conv_input_grad") {
      run_ = &WindowProduct::input_grad;
      product_ = make_product(request.device, y, kernel, {1, 1}, columns);
    } else {
      run_ = &WindowProduct::kernel_grad;
      product_ = make_product(request.device, columns, y, {0, 0}, kernel);
    }
    columns_ = columns;
    kernel_ = kernel;
    y_ = y;
    return product_ != nullptr;
  }

  void run(const KernelArguments& arguments) const override { (this->*run_)(arguments); }

  std::size_t scratch_bytes() const override { return columns_bytes_ + product_->scratch_bytes(); }

 private:
  static std::unique_ptr<Kernel> make_product(Device device, const Shape& a, const Shape& b,
                                              std::array<std::int64_t, 2> contract, const Shape& result) {
    using Dims = std::vector<std::int64_t>;
    const Attrs attrs = {{"contract", std::vector<Dims>{{contract[0]}, {contract[1]}}},
                         {"batch", std::vector<Dims>{{}, {}}}};
    const std::array<ArrayType, 2> inputs = {ArrayType{DType::float32, a, {}}, ArrayType{DType::float32, b, {}}};
    const std::array<ArrayType, 1> outputs = {ArrayType{DType::float32, result, {}}};
    return make_dot_general({"dot_general", attrs, inputs, outputs, device});
  }

  void multiply(const KernelArguments& arguments, const void* a, const Shape& a_shape, const void* b,
                const Shape& b_shape, void* result, const Shape& shape) const {
    const std::array<ArrayView, 2> inputs = {contiguous_view(const_cast<void*>(a), DType::float32, a_shape),
                                             contiguous_view(const_cast<void*>(b), DType::float32, b_shape)};
    const std::array<ArrayView, 1> outputs = {contiguous_view(result, DType::float32, shape)};
    product_->run({inputs, outputs, static_cast<std::byte*>(arguments.scratch) + columns_bytes_});
  }

  /// The windows of x side by side; x itself where they lie so.
  const void* columns_of(const KernelArguments& arguments) const {
    const void* x = arguments.inputs[0].data;
    if (columns_bytes_ == 0) return x;
    lay_out(windows_, static_cast<const float*>(x), static_cast<float*>(arguments.scratch));
    return arguments.scratch;
  }

  void forward(const KernelArguments& arguments) const {
    multiply(arguments, columns_of(arguments), columns_, arguments.inputs[1].data, kernel_, arguments.outputs[0].data,
             y_);
  }

  void input_grad(const KernelArguments& arguments) const {
    void* x = arguments.outputs[0].data;
    void* columns = columns_bytes_ == 0 ? x : arguments.scratch;
    multiply(arguments, arguments.inputs[0].data, y_, arguments.inputs[1].data, kernel_, columns, columns_);
    if (columns != x) add_up_windows(windows_, static_cast<const float*>(columns), static_cast<float*>(x));
  }

  void kernel_grad(const KernelArguments& arguments) const {
    multiply(arguments, columns_of(arguments), columns_, arguments.inputs[1].data, y_, arguments.outputs[0].data,
             kernel_);
  }

  Windows windows_;
  Shape columns_, kernel_, y_;
  std::size_t columns_bytes_ = 0;  ///< 0 where x lies as its windows do.
  std::unique_ptr<Kernel> product_;
  void (WindowProduct::*run_)(const KernelArguments&) const = nullptr;
};

}  // namespace

std::unique_ptr<Kernel> make_window_product(const KernelRequest& request, const ConvolutionGeometry& geometry) {
  constexpr std::int64_t most_columns = std::int64_t{1} << 23;  // what they may take of memory
  if (request.inputs[0].dtype != DType::float32 || geometry.groups != 1) return nullptr;
  if (!is_faster(request.op, geometry)) return nullptr;
  const std::int64_t features = geometry.y.dim(-1);
  if (geometry.y.size() / features * (geometry.kernel.size() / features) > most_columns) return nullptr;
  auto kernel = std::make_unique<WindowProduct>(geometry);
  if (!kernel->prepare(request, geometry)) return nullptr;
  return kernel;
}

}  // namespace lockstep::backends::onednn
