#include "backends/cpu/convolutions/plain_conv.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "backends/cpu/dims.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/sums.h"

namespace lockstep::backend::cpu {

namespace {

Shape between(const Shape& shape, int first, int last) {
  return Shape(Dims(shape.begin() + first, shape.end() - last));
}

/// Which of x, kernel and y is the result; the other two are the operands in this order.
enum class Result : std::size_t { x, kernel, y };

struct Geometry {
  std::int64_t batch, groups, in_features, out_features;  // features of one group
  Shape in, window, out;
  Dims strides, dilation, low;

  Geometry(const std::array<Shape, 3>& shapes, const Attrs& attrs)
      : batch(shapes[0][0]),
        groups(attrs.get<std::int64_t>("groups")),
        in_features(shapes[1].dim(-2)),
        out_features(shapes[1].dim(-1) / groups),
        in(between(shapes[0], 1, 1)),
        window(between(shapes[1], 0, 2)),
        out(between(shapes[2], 1, 1)),
        strides(attrs.get<Dims>("strides")),
        dilation(attrs.get<Dims>("dilation")) {
    for (const Dims& pair : attrs.get<std::vector<Dims>>("padding")) low.push_back(pair[0]);
  }

  /// The row of the input plane that tap `w` of output row `o` meets, or -1 in the padding.
  std::int64_t met(std::int64_t o, std::int64_t w) const {
    std::int64_t row = 0;
    std::int64_t weight = 1;
    for (int d = in.rank() - 1; d >= 0; --d) {
      const auto k = static_cast<std::size_t>(d);
      const std::int64_t at = o % out[d] * strides[k] + w % window[d] * dilation[k] - low[k];
      if (at < 0 || at >= in[d]) return -1;
      row += at * weight;
      weight *= in[d];
      o /= out[d];
      w /= window[d];
    }
    return row;
  }
};

/// Of integers modulo 2^n; those of 16 bits are multiplied as unsigned, where nothing overflows.
template <class T, class A, class B>
void add_product(T& sum, A a, B b) {
  if constexpr (std::is_integral_v<T>) {
    sum = static_cast<T>(sum + std::uint64_t{a} * b);
  } else {
    sum += static_cast<T>(a) * static_cast<T>(b);
  }
}

/// Adds the products of all features of one group at one place: x [C], kernel [C, all O], y [O].
template <Result result, class X, class K, class Y>
void add_plain_products(const Geometry& geometry, X* x, K* kernel, Y* y) {
  const std::int64_t row = geometry.out_features * geometry.groups;
  for (std::int64_t c = 0; c < geometry.in_features; ++c) {
    for (std::int64_t o = 0; o < geometry.out_features; ++o) {
      if constexpr (result == Result::x) add_product(x[c], kernel[c * row + o], y[o]);
      if constexpr (result == Result::kernel) add_product(kernel[c * row + o], x[c], y[o]);
      if constexpr (result == Result::y) add_product(y[o], x[c], kernel[c * row + o]);
    }
  }
}

template <Result result, class X, class K, class Y>
void add_all(const Geometry& geometry, X* x, K* kernel, Y* y) {
  const std::int64_t in_row = geometry.in_features * geometry.groups;
  const std::int64_t out_row = geometry.out_features * geometry.groups;
  const std::int64_t in_plane = geometry.in.size();
  const std::int64_t out_plane = geometry.out.size();
  const std::int64_t taps = geometry.window.size();
  for (std::int64_t n = 0; n < geometry.batch; ++n) {
    for (std::int64_t o = 0; o < out_plane; ++o) {
      for (std::int64_t w = 0; w < taps; ++w) {
        const std::int64_t i = geometry.met(o, w);
        if (i < 0) continue;
        for (std::int64_t g = 0; g < geometry.groups; ++g) {
          add_plain_products<result>(geometry, x + (n * in_plane + i) * in_row + g * geometry.in_features,
                                     kernel + w * geometry.in_features * out_row + g * geometry.out_features,
                                     y + (n * out_plane + o) * out_row + g * geometry.out_features);
        }
      }
    }
  }
}

template <class T, Result result>
void run(const Geometry& geometry, const KernelArguments& arguments) {
  const bool stays_wide = is_widened<T> && arguments.outputs[0].dtype == DType::float32;
  Wide<T>* sums = stays_wide ? zeroed_sums<Wide<T>>(arguments) : zeroed_sums<T>(arguments);
  const T* a = static_cast<const T*>(arguments.inputs[0].data);
  const T* b = static_cast<const T*>(arguments.inputs[1].data);
  if constexpr (result == Result::x) add_all<result>(geometry, sums, b, a);
  if constexpr (result == Result::kernel) add_all<result>(geometry, a, sums, b);
  if constexpr (result == Result::y) add_all<result>(geometry, a, b, sums);
  if (!stays_wide) finish_sums<T>(arguments, sums);
}

template <Result result>
std::unique_ptr<Kernel> make_plain(const KernelRequest& request, const std::array<Shape, 3>& shapes) {
  using Run = void (*)(const Geometry&, const KernelArguments&);
  const auto typed = []<class T>() -> Run { return run<T, result>; };
  const DType dtype = request.inputs[0].dtype;
  const Run run_typed = is_float(dtype) ? with_float(dtype, typed) : with_bits(dtype, typed);
  return make_function_kernel([run_typed, geometry = Geometry(shapes, request.attrs)](
                                  const KernelArguments& arguments) { run_typed(geometry, arguments); },
                              {.scratch_bytes = sum_scratch(request.outputs[0])});
}

}  // namespace

std::unique_ptr<Kernel> make_plain_conv(const KernelRequest& request) {
  const Shape& a = request.inputs[0].shape;
  const Shape& b = request.inputs[1].shape;
  const Shape& out = request.outputs[0].shape;
  if (request.op == "conv_input_grad") return make_plain<Result::x>(request, {out, b, a});
  if (request.op == "conv_kernel_grad") return make_plain<Result::kernel>(request, {a, out, b});
  return make_plain<Result::y>(request, {a, b, out});
}

}  // namespace lockstep::backend::cpu
