#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <type_traits>
#include <vector>

#include "backends/aten/element_types.h"
#include "backends/aten/function_kernel.h"
#include "backends/aten/kernel_table.h"
#include "backends/aten/sums.h"
#include "backends/vector_variants.h"

namespace lockstep::backends::aten::kernels {

namespace {

using Dims = std::vector<std::int64_t>;

Shape spatial_of(const Shape& shape) { return Shape(Dims(shape.begin() + 1, shape.end() - 1)); }

/// Windows over the planes of x [N, spatial..., C]; y [N, out..., C] has one element a window.
struct Windows {
  std::int64_t batch, features;
  Shape in, out;
  Dims window, strides, dilation, low;

  Windows(const Shape& x, const Shape& y, const Attrs& attrs)
      : batch(x[0]),
        features(x.dim(-1)),
        in(spatial_of(x)),
        out(spatial_of(y)),
        window(attrs.get<Dims>("window")),
        strides(attrs.get<Dims>("strides")),
        dilation(attrs.get_or<Dims>("dilation", Dims(strides.size(), 1))) {
    for (const Dims& pair : attrs.get<std::vector<Dims>>("padding")) low.push_back(pair[0]);
  }

  /// Calls visit(x row, y row) for every window and every element of the plane in it; windows row-major, then elements
  /// row-major. Rows are those of [N * plane, C]. `open(y row)` comes before the first element of a window.
  template <class Open, class Visit>
  void for_each_pair(Open open, Visit visit) const {
    const std::int64_t in_plane = in.size();
    const std::int64_t out_plane = out.size();
    for (std::int64_t n = 0; n < batch; ++n) {
      Index o{};
      for (std::int64_t row = 0; row < out_plane; ++row, advance(o)) {
        open(n * out_plane + row);
        for_each_in_window(o, [&](std::int64_t position) { visit(n * in_plane + position, n * out_plane + row); });
      }
    }
  }

 private:
  using Index = std::array<std::int64_t, Shape::max_rank>;

  void advance(Index& o) const {
    for (int d = out.rank() - 1; d >= 0; --d) {
      if (++o[static_cast<std::size_t>(d)] < out[d]) return;
      o[static_cast<std::size_t>(d)] = 0;
    }
  }

  template <class Visit>
  void for_each_in_window(const Index& o, Visit visit) const {
    Index begin, end, at;
    const int last = in.rank() - 1;
    for (int d = 0; d <= last; ++d) {
      const auto k = static_cast<std::size_t>(d);
      const std::int64_t first = o[k] * strides[k] - low[k];
      // The first of the window's elements that is not before the array.
      begin[k] = first >= 0 ? first : first + (-first + dilation[k] - 1) / dilation[k] * dilation[k];
      end[k] = std::min(first + (window[k] - 1) * dilation[k] + 1, in[d]);
      if (begin[k] >= end[k]) return;
      at[k] = begin[k];
    }
    while (true) {
      std::int64_t position = 0;
      for (int d = 0; d <= last; ++d) position = position * in[d] + at[static_cast<std::size_t>(d)];
      const auto inner = static_cast<std::size_t>(last);
      for (std::int64_t i = begin[inner]; i < end[inner]; i += dilation[inner], position += dilation[inner]) {
        visit(position);
      }
      int d = last - 1;
      for (; d >= 0; --d) {
        const auto k = static_cast<std::size_t>(d);
        if ((at[k] += dilation[k]) < end[k]) break;
        at[k] = begin[k];
      }
      if (d < 0) return;
    }
  }
};

using Run = void (*)(const Windows& windows, const KernelArguments& arguments);

template <class T>
void largest(const Windows& windows, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  T* values = static_cast<T*>(arguments.outputs[0].data);
  std::int32_t* positions = static_cast<std::int32_t*>(arguments.outputs[1].data);
  const std::int64_t features = windows.features;
  const std::int64_t plane = windows.in.size();
  bool first = false;
  windows.for_each_pair([&](std::int64_t) { first = true; },
                        [&](std::int64_t from_row, std::int64_t to_row) {
                          const T* from = x + from_row * features;
                          T* value = values + to_row * features;
                          std::int32_t* place = positions + to_row * features;
                          const auto position = static_cast<std::int32_t>(from_row % plane);
                          if (first) {
                            std::copy_n(from, features, value);
                            std::fill_n(place, features, position);
                            first = false;
                            return;
                          }
#pragma GCC ivdep
                          for (std::int64_t c = 0; c < features; ++c) {
                            const Wide<T> a = from[c];
                            const Wide<T> b = value[c];
                            const bool beats = (a > b) | ((a != a) & (b == b));
                            value[c] = beats ? from[c] : value[c];
                            place[c] = beats ? position : place[c];
                          }
                        });
}

template <class T>
void sum(const Windows& windows, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  const std::int64_t features = windows.features;
  Wide<T>* sums = zeroed_sums<T>(arguments);
  windows.for_each_pair([](std::int64_t) {},
                        [&](std::int64_t from_row, std::int64_t to_row) {
                          const T* from = x + from_row * features;
                          Wide<T>* to = sums + to_row * features;
#pragma GCC ivdep
                          for (std::int64_t c = 0; c < features; ++c) {
                            to[c] = static_cast<Wide<T>>(to[c] + static_cast<Wide<T>>(from[c]));
                          }
                        });
  finish_sums<T>(arguments, sums);
}

template <class T>
void spread(const Windows& windows, const KernelArguments& arguments) {
  const T* y = static_cast<const T*>(arguments.inputs[0].data);
  const std::int64_t features = windows.features;
  Wide<T>* sums = zeroed_sums<T>(arguments);
  windows.for_each_pair([](std::int64_t) {},
                        [&](std::int64_t to_row, std::int64_t from_row) {
                          const T* from = y + from_row * features;
                          Wide<T>* to = sums + to_row * features;
#pragma GCC ivdep
                          for (std::int64_t c = 0; c < features; ++c) {
                            to[c] = static_cast<Wide<T>>(to[c] + static_cast<Wide<T>>(from[c]));
                          }
                        });
  finish_sums<T>(arguments, sums);
}

std::unique_ptr<Kernel> make_windows(const KernelRequest& request, const Shape& x, const Shape& y, Run run) {
  return make_function_kernel(
      request,
      [run, windows = Windows(x, y, request.attrs)](const KernelArguments& arguments) { run(windows, arguments); },
      {.scratch_bytes = sum_scratch(request.outputs[0])});
}

/// Calls visit(element of y, element of x) for planes x [N, spatial..., C] and indices into them.
template <class Visit>
void for_each_target(const ArrayView& indices, const Shape& x, Visit visit) {
  const std::int64_t features = x.dim(-1);
  const auto size = [](const Shape& shape) {
    return std::accumulate(shape.begin() + 1, shape.end() - 1, std::int64_t{1}, std::multiplies<>());
  };
  const std::int64_t plane = size(x);
  const std::int64_t rows = size(indices.shape);
  const std::int32_t* index = static_cast<const std::int32_t*>(indices.data);
  std::int64_t i = 0;
  for (std::int64_t n = 0; n < x[0]; ++n) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t c = 0; c < features; ++c, ++i) {
        const std::int64_t position = std::clamp<std::int64_t>(index[i], 0, plane - 1);
        visit(i, (n * plane + position) * features + c);
      }
    }
  }
}

template <class T>
void gather(const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  for_each_target(arguments.inputs[1], arguments.inputs[0].shape,
                  [&](std::int64_t i, std::int64_t from) { out[i] = x[from]; });
}

template <class T>
void scatter(const KernelArguments& arguments) {
  const T* y = static_cast<const T*>(arguments.inputs[1].data);
  Wide<T>* sums = zeroed_sums<T>(arguments);
  for_each_target(arguments.inputs[0], arguments.outputs[0].shape, [&](std::int64_t i, std::int64_t to) {
    sums[to] = static_cast<Wide<T>>(sums[to] + static_cast<Wide<T>>(y[i]));
  });
  finish_sums<T>(arguments, sums);
}

bool can_add(DType dtype) { return is_inexact(dtype) || is_integer(dtype); }

}  // namespace

std::unique_ptr<Kernel> window_max(const KernelRequest& request) {
  const ArrayType& x = request.inputs[0];
  if (!is_float(x.dtype) && !is_integer(x.dtype)) return nullptr;
  return make_windows(request, x.shape, request.outputs[0].shape,
                      with_real(x.dtype, []<class T>() -> Run { return VectorVariants<largest<T>>::chosen(); }));
}

std::unique_ptr<Kernel> window_sum(const KernelRequest& request) {
  const ArrayType& x = request.inputs[0];
  if (!can_add(x.dtype)) return nullptr;
  return make_windows(request, x.shape, request.outputs[0].shape,
                      with_summed(x.dtype, []<class T>() -> Run { return VectorVariants<sum<T>>::chosen(); }));
}

std::unique_ptr<Kernel> window_spread(const KernelRequest& request) {
  const ArrayType& y = request.inputs[0];
  if (!can_add(y.dtype)) return nullptr;
  return make_windows(request, request.outputs[0].shape, y.shape,
                      with_summed(y.dtype, []<class T>() -> Run { return VectorVariants<spread<T>>::chosen(); }));
}

std::unique_ptr<Kernel> window_gather(const KernelRequest& request) {
  return with_moved(request.inputs[0].dtype, [&]<class T>() { return make_function_kernel(request, &gather<T>); });
}

std::unique_ptr<Kernel> window_scatter(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  if (!can_add(dtype)) return nullptr;
  return with_summed(dtype, [&]<class T>() {
    return make_function_kernel(request, &scatter<T>, {.scratch_bytes = sum_scratch(request.outputs[0])});
  });
}

}  // namespace lockstep::backends::aten::kernels
