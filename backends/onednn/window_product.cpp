#include "backends/onednn/window_product.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/backend/round_up.h>
#include <lockstep/backend/row_kernels.h>

#include "backends/cpu/parts.h"
#include "backends/cpu/scratch.h"
#include "backends/cpu/vector_variants.h"
#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/kernels.h"
#include "backends/onednn/matmul.h"

namespace lockstep::backend::onednn {

namespace {

/// Where the windows of all places of y lie in x; always of three spatial dimensions, outer ones of extent 1.
struct Windows {
  using Dims = std::array<std::int64_t, 3>;

  Windows() = default;
  Windows(const cpu::ConvolutionGeometry& g, std::int64_t of_images) : images(of_images), channels(g.x.dim(-1)) {
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

  std::int64_t images = 0, channels = 0;
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
  static const auto widest = cpu::VectorVariants<add_up>::chosen();
  widest(w, columns, x);
}

/// All measured, against oneDNN's convolutions.
bool is_faster(std::string_view op, const cpu::ConvolutionGeometry& g) {
  const std::int64_t width = g.y.dim(-2);
  const bool kernel_grad = op == "conv_kernel_grad";
  if (g.window_size() == 1) return width <= (g.is_strided() && !kernel_grad ? 8 : 4);
  // Where the kernel's gradient, or all of a kernel, is far larger than the images.
  constexpr std::int64_t large = std::int64_t{1} << 19, medium = std::int64_t{1} << 15;
  if (width > 4) return false;
  if (g.kernel.size() >= large) return true;
  return kernel_grad ? width <= 2 && g.kernel.size() >= medium : op == "conv_input_grad" && g.is_strided();
}

/// Matrices of floats, row-major.
struct Matrix {
  std::int64_t rows = 0, columns = 0;

  Shape shape() const { return {rows, columns}; }
  std::int64_t size() const { return rows * columns; }
};

class WindowProduct final : public cpu::ImageKernel {
 public:
  /// False where the product is better left to others.
  bool prepare(const KernelRequest& request, const cpu::ConvolutionGeometry& g, std::int64_t images_at_once) {
    images_ = g.x[0];
    at_once_ = images_at_once;
    x_image_ = g.x.size() / images_;
    y_image_ = g.y.size() / images_;
    kernel_ = {g.kernel.size() / g.y.dim(-1), g.y.dim(-1)};
    rows_an_image_ = request.outputs[0].size() / request.outputs[0].shape.dim(-1) / images_;
    const bool as_it_lies =
        g.window_size() == 1 && !g.is_strided() && g.x.size() == g.y.size() / kernel_.columns * kernel_.rows;
    run_ = request.op == "conv"              ? &WindowProduct::forward
           : request.op == "conv_input_grad" ? &WindowProduct::input_grad
                                             : &WindowProduct::kernel_grad;
    const std::int64_t rest = images_ % at_once_;
    if (!bind(whole_, request, g, at_once_) || (rest != 0 && !bind(rest_, request, g, rest))) return false;
    columns_bytes_ = as_it_lies ? 0 : cpu::whole_lines(static_cast<std::size_t>(whole_.columns.size()) * sizeof(float));
    scratch_bytes_ = columns_bytes_ + std::max(whole_.scratch_bytes(), rest_.scratch_bytes());
    return true;
  }

  void run_for(const KernelArguments& arguments, RowReader* reader) const override {
    const bool sums = run_ == &WindowProduct::kernel_grad;
    if (sums && whole_.adds != nullptr) {
      std::fill_n(static_cast<float*>(arguments.outputs[0].data), kernel_.size(), 0.0F);
    }
    for (std::int64_t first = 0; first < images_; first += at_once_) {
      const std::int64_t count = std::min(at_once_, images_ - first);
      (this->*run_)(arguments, count == at_once_ ? whole_ : rest_, first);
      if (reader != nullptr && !sums) reader->read(first * rows_an_image_, count * rows_an_image_);
    }
    if (reader != nullptr && sums) reader->read(0, kernel_.rows);
  }

  std::size_t scratch_bytes() const override { return scratch_bytes_; }
  std::int64_t images_at_once() const override { return at_once_; }
  std::unique_ptr<Kernel> of_images(std::int64_t count) const override {
    auto some = std::make_unique<WindowProduct>(*this);
    some->images_ = count;
    return some;
  }

 private:
  /// Some images, whose windows are laid out at once.
  struct ImageBlock {
    Windows windows;
    Matrix columns, y;
    std::shared_ptr<const Kernel> product;
    std::shared_ptr<const BoundPrimitive> adds;  ///< Instead, where a gradient of the kernel sums over blocks.

    std::size_t scratch_bytes() const {
      return product != nullptr ? product->scratch_bytes() : adds != nullptr ? adds->scratch_bytes() : 0;
    }
  };

  /// False where oneDNN has nothing fast.
  bool bind(ImageBlock& block, const KernelRequest& request, const cpu::ConvolutionGeometry& g,
            std::int64_t images) const {
    block.windows = Windows(g, images);
    const std::int64_t rows = images * y_image_ / kernel_.columns;
    block.columns = {rows, kernel_.rows};
    block.y = {rows, kernel_.columns};
    if (run_ == &WindowProduct::forward) {
      block.product = make_product(request.device, block.columns, kernel_, {1, 0}, block.y);
    } else if (run_ == &WindowProduct::input_grad) {
      block.product = make_product(request.device, block.y, kernel_, {1, 1}, block.columns);
    } else if (at_once_ == images_) {
      block.product = make_product(request.device, block.columns, block.y, {0, 0}, kernel_);
    } else {
      constexpr auto type = dnnl::memory::data_type::f32;
      block.adds = make_matmul(matrices(type, {kernel_.rows, rows}, {1, kernel_.rows}),
                               matrices(type, {rows, kernel_.columns}, {kernel_.columns, 1}),
                               matrices(type, {kernel_.rows, kernel_.columns}, {kernel_.columns, 1}), true);
    }
    return block.product != nullptr || block.adds != nullptr;
  }

  static std::unique_ptr<Kernel> make_product(Device device, const Matrix& a, const Matrix& b,
                                              std::array<std::int64_t, 2> contract, const Matrix& result) {
    using Dims = std::vector<std::int64_t>;
    const Attrs attrs = {{"contract", std::vector<Dims>{{contract[0]}, {contract[1]}}},
                         {"batch", std::vector<Dims>{{}, {}}}};
    const std::array<ArrayType, 2> inputs = {ArrayType{DType::float32, a.shape(), {}},
                                             ArrayType{DType::float32, b.shape(), {}}};
    const std::array<ArrayType, 1> outputs = {ArrayType{DType::float32, result.shape(), {}}};
    return make_dot_general({"dot_general", attrs, inputs, outputs, device});
  }

  void multiply(const KernelArguments& arguments, const ImageBlock& block, const float* a, const Matrix& a_shape,
                const float* b, const Matrix& b_shape, float* result, const Matrix& shape) const {
    void* scratch = static_cast<std::byte*>(arguments.scratch) + columns_bytes_;
    if (block.adds != nullptr) return block.adds->run({a, b, result}, scratch);
    const auto view = [](const float* data, const Matrix& matrix) {
      return contiguous_view(const_cast<float*>(data), DType::float32, matrix.shape());
    };
    const std::array<ArrayView, 2> inputs = {view(a, a_shape), view(b, b_shape)};
    const ArrayView output = view(result, shape);
    block.product->run({inputs, {&output, 1}, scratch});
  }

  static const float* input(const KernelArguments& arguments, std::size_t i) {
    return static_cast<const float*>(arguments.inputs[i].data);
  }

  /// The windows of x side by side; x itself where they lie so.
  const float* columns_of(const KernelArguments& arguments, const ImageBlock& block, const float* x) const {
    if (columns_bytes_ == 0) return x;
    auto* columns = static_cast<float*>(arguments.scratch);
    lay_out(block.windows, x, columns);
    return columns;
  }

  void forward(const KernelArguments& arguments, const ImageBlock& block, std::int64_t first) const {
    const float* columns = columns_of(arguments, block, input(arguments, 0) + first * x_image_);
    multiply(arguments, block, columns, block.columns, input(arguments, 1), kernel_,
             static_cast<float*>(arguments.outputs[0].data) + first * y_image_, block.y);
  }

  void input_grad(const KernelArguments& arguments, const ImageBlock& block, std::int64_t first) const {
    float* x = static_cast<float*>(arguments.outputs[0].data) + first * x_image_;
    float* columns = columns_bytes_ == 0 ? x : static_cast<float*>(arguments.scratch);
    multiply(arguments, block, input(arguments, 0) + first * y_image_, block.y, input(arguments, 1), kernel_, columns,
             block.columns);
    if (columns != x) add_up_windows(block.windows, columns, x);
  }

  void kernel_grad(const KernelArguments& arguments, const ImageBlock& block, std::int64_t first) const {
    const float* columns = columns_of(arguments, block, input(arguments, 0) + first * x_image_);
    multiply(arguments, block, columns, block.columns, input(arguments, 1) + first * y_image_, block.y,
             static_cast<float*>(arguments.outputs[0].data), kernel_);
  }

  Matrix kernel_;
  ImageBlock whole_, rest_;
  std::int64_t images_ = 0, at_once_ = 0, rows_an_image_ = 0;
  std::int64_t x_image_ = 0, y_image_ = 0;  ///< Elements.
  std::size_t columns_bytes_ = 0;           ///< 0 where x lies as its windows do.
  std::size_t scratch_bytes_ = 0;
  void (WindowProduct::*run_)(const KernelArguments&, const ImageBlock&, std::int64_t) const = nullptr;
};

/// Elements of the windows of an image.
std::int64_t columns_an_image(const cpu::ConvolutionGeometry& g) {
  const std::int64_t features = g.y.dim(-1);
  return g.y.size() / features / g.x[0] * (g.kernel.size() / features);
}

std::unique_ptr<Kernel> make(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry,
                             std::int64_t images_at_once) {
  auto kernel = std::make_unique<WindowProduct>();
  if (!kernel->prepare(request, geometry, images_at_once)) return nullptr;
  return kernel;
}

}  // namespace

std::unique_ptr<Kernel> make_window_product(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
  constexpr std::int64_t most_columns = std::int64_t{1} << 23;  // what they may take of memory
  if (request.inputs[0].dtype != DType::float32 || geometry.groups != 1) return nullptr;
  if (!is_faster(request.op, geometry)) return nullptr;
  if (geometry.x[0] * columns_an_image(geometry) > most_columns) return nullptr;
  return make(request, geometry, geometry.x[0]);
}

std::unique_ptr<Kernel> make_window_products(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry) {
  constexpr std::int64_t most_columns = std::int64_t{1} << 20, most_an_image = std::int64_t{1} << 22;
  if (request.inputs[0].dtype != DType::float32 || geometry.groups != 1) return nullptr;
  const std::int64_t columns = columns_an_image(geometry), images = geometry.x[0];
  if (columns > most_an_image) return nullptr;
  const std::int64_t blocks =
      std::clamp<std::int64_t>(ceil_div<std::int64_t>(images * columns, most_columns), 1, images);
  return make(request, geometry, ceil_div(images, blocks));
}

}  // namespace lockstep::backend::onednn
