#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "backends/cpu/element_types.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/sums.h"
#include "backends/cpu/vector_variants.h"
#include "backends/cpu/windows/windows.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// x [N, spatial..., C] and the places of y's elements in its planes.
struct Planes {
  std::int64_t batch, size, rows, features;
  /// A guess that costs little: pooling mostly takes windows that lie next to each other.
  std::optional<Windows> tiles;

  Planes(const Shape& x, const Shape& y)
      : batch(x[0]), size(Windows::spatial_of(x).size()), rows(Windows::spatial_of(y).size()), features(x.dim(-1)) {
    Windows::Dims extents;
    for (int d = 1; d + 1 < x.rank(); ++d) extents.push_back(y[d] == 0 ? 0 : x[d] / y[d]);
    if (Shape(extents).size() > 0) tiles.emplace(x, y, std::move(extents));
  }

  /// Calls visit(element of y, element of x) for a plane.
  template <class Visit>
  void for_each_target(const std::int32_t* index, Visit visit) const {
    std::int64_t i = 0;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t c = 0; c < features; ++c, ++i) {
        visit(i, std::clamp<std::int64_t>(index[i], 0, size - 1) * features + c);
      }
    }
  }
};

template <class T>
void gather_positions(const Planes& planes, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  const std::int32_t* index = static_cast<const std::int32_t*>(arguments.inputs[1].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  const std::int64_t elements = planes.rows * planes.features;
  const std::int64_t plane = planes.size * planes.features;
  for (std::int64_t n = 0; n < planes.batch; ++n, x += plane, index += elements, out += elements) {
    planes.for_each_target(index, [&](std::int64_t i, std::int64_t from) { out[i] = x[from]; });
  }
}

/// Whether each element of y points into its own tile: then all of the tiles is written, with few instructions.
template <class T>
bool fill_tiles(const Windows& tiles, const std::int32_t* index, const T* y, Wide<T>* sums) {
  const std::int64_t features = tiles.features;
  std::int64_t met = 0;
  tiles.for_each_window([&](std::int64_t row, const Windows::Index& o) {
    const std::int32_t* places = index + row * features;
    const T* from = y + row * features;
    tiles.for_each_in_window(o, [&](std::int64_t position) {
      Wide<T>* to = sums + position * features;
      std::int32_t here = 0;
#pragma GCC ivdep
      for (std::int64_t c = 0; c < features; ++c) {
        const bool hit = places[c] == static_cast<std::int32_t>(position);
        to[c] = static_cast<Wide<T>>(Wide<T>(0) + (hit ? static_cast<Wide<T>>(from[c]) : Wide<T>(0)));
        here += hit ? 1 : 0;
      }
      met += here;
    });
  });
  return met == tiles.out.size() * features;
}

template <class T>
void scatter_to_positions(const Planes& planes, const KernelArguments& arguments) {
  const std::int32_t* index = static_cast<const std::int32_t*>(arguments.inputs[0].data);
  const T* y = static_cast<const T*>(arguments.inputs[1].data);
  Wide<T>* const sums = memory_of_sums<T>(arguments);
  const std::int64_t elements = planes.rows * planes.features;
  const std::int64_t plane = planes.size * planes.features;
  bool tiled = planes.tiles.has_value();
  const bool covered = tiled && planes.tiles->taps() * planes.rows == planes.size;
  for (std::int64_t n = 0; n < planes.batch; ++n, index += elements, y += elements) {
    Wide<T>* to = sums + n * plane;
    if (tiled) {
      if (!covered) std::fill_n(to, plane, Wide<T>(0));
      tiled = fill_tiles(*planes.tiles, index, y, to);
      if (tiled) continue;
    }
    std::fill_n(to, plane, Wide<T>(0));
    planes.for_each_target(index, [&](std::int64_t i, std::int64_t at) {
      to[at] = static_cast<Wide<T>>(to[at] + static_cast<Wide<T>>(y[i]));
    });
  }
  finish_sums<T>(arguments, sums);
}

using RunPlanes = void (*)(const Planes& planes, const KernelArguments& arguments);

std::unique_ptr<Kernel> make_positions(const Shape& x, const Shape& y, RunPlanes run, std::size_t scratch_bytes) {
  return make_function_kernel(
      [run, planes = Planes(x, y)](const KernelArguments& arguments) { run(planes, arguments); },
      {.scratch_bytes = scratch_bytes});
}

}  // namespace

std::unique_ptr<Kernel> window_gather(const KernelRequest& request) {
  return with_moved(request.inputs[0].dtype, [&]<class T>() {
    return make_positions(request.inputs[0].shape, request.inputs[1].shape, &gather_positions<T>, 0);
  });
}

std::unique_ptr<Kernel> window_scatter(const KernelRequest& request) {
  const ArrayType& x = request.outputs[0];
  if (!can_add(x.dtype)) return nullptr;
  return with_summed(x.dtype, [&]<class T>() {
    return make_positions(x.shape, request.inputs[0].shape, VectorVariants<scatter_to_positions<T>>::chosen(),
                          sum_scratch(x));
  });
}

}  // namespace lockstep::backend::cpu::kernels
