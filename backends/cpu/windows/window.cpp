#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/element_types.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/sums.h"
#include "backends/cpu/vector_variants.h"
#include "backends/cpu/windows/windows.h"

namespace lockstep::backend::cpu::kernels {

namespace {

using RunPooling = void (*)(const Windows& windows, const KernelArguments& arguments);

/// Holds the largest elements of a window met so far, one a feature, and their places.
template <class T>
struct LargestOfWindows {
  T* values;
  std::int32_t* places;
  std::int64_t features;

  /// Meets rows of a plane that come before those met; where `first`, none was met.
  template <std::size_t count, bool first>
  void meet(const T* plane, const std::int32_t* positions) const {
    std::array<const T*, count> rows;
    std::array<std::int32_t, count> at;
    for (std::size_t k = 0; k < count; ++k) {
      at[k] = positions[k];
      rows[k] = plane + positions[k] * features;
    }
#pragma GCC ivdep
    for (std::int64_t c = 0; c < features; ++c) {
      Wide<T> value = first ? rows[count - 1][c] : values[c];
      std::int32_t place = first ? at[count - 1] : places[c];
      for (std::size_t k = first ? count - 1 : count; k-- > 0;) {
        const Wide<T> a = rows[k][c];
        const bool beats = (a >= value) | (a != a);
        value = beats ? a : value;
        place = beats ? at[k] : place;
      }
      values[c] = static_cast<T>(value);
      places[c] = place;
    }
  }

  void meet_all(const T* plane, std::span<const std::int32_t> positions) const {
    constexpr std::size_t together = 4;
    const std::int32_t* const begin = positions.data();
    std::size_t left = positions.size();
    if (left >= together) {
      meet<together, true>(plane, begin + (left -= together));
    } else {
      meet<1, true>(plane, begin + (left -= 1));
    }
    while (left >= together) meet<together, false>(plane, begin + (left -= together));
    while (left > 0) meet<1, false>(plane, begin + (left -= 1));
  }
};

template <class T>
void largest_of_windows(const Windows& windows, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  std::int32_t* const positions = static_cast<std::int32_t*>(arguments.scratch);
  const std::int64_t features = windows.features;
  LargestOfWindows<T> to{static_cast<T*>(arguments.outputs[0].data),
                         static_cast<std::int32_t*>(arguments.outputs[1].data), features};
  for (std::int64_t n = 0; n < windows.batch; ++n, x += windows.in.size() * features) {
    windows.for_each_window([&](std::int64_t, const Windows::Index& o) {
      std::size_t taps = 0;
      windows.for_each_in_window(o, [&](std::int64_t at) { positions[taps++] = static_cast<std::int32_t>(at); });
      to.meet_all(x, {positions, taps});
      to.values += features;
      to.places += features;
    });
  }
}

/// Adds rows of operand 0 up in rows of the result; `turned`: those of the places go to those of the windows' positions.
template <class T, bool turned>
void add_window_rows(const Windows& windows, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0].data);
  const std::int64_t features = windows.features;
  Wide<T>* sums = zeroed_sums<T>(arguments);
  windows.for_each_pair([&](std::int64_t position, std::int64_t place) {
    const std::int64_t from_row = turned ? place : position, to_row = turned ? position : place;
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
void sum_of_windows(const Windows& windows, const KernelArguments& arguments) {
  add_window_rows<T, false>(windows, arguments);
}

template <class T>
void spread_over_windows(const Windows& windows, const KernelArguments& arguments) {
  add_window_rows<T, true>(windows, arguments);
}

std::unique_ptr<Kernel> make_windows(const Windows& windows, RunPooling run, std::size_t scratch_bytes) {
  return make_function_kernel([run, windows](const KernelArguments& arguments) { run(windows, arguments); },
                              {.scratch_bytes = scratch_bytes});
}

}  // namespace

std::unique_ptr<Kernel> window_max(const KernelRequest& request) {
  const ArrayType& x = request.inputs[0];
  if (!is_float(x.dtype) && !is_integer(x.dtype)) return nullptr;
  const Windows windows(x.shape, request.outputs[0].shape, request.attrs);
  return make_windows(
      windows,
      with_real(x.dtype, []<class T>() -> RunPooling { return VectorVariants<largest_of_windows<T>>::chosen(); }),
      static_cast<std::size_t>(windows.taps()) * sizeof(std::int32_t));
}

std::unique_ptr<Kernel> window_sum(const KernelRequest& request) {
  const ArrayType& x = request.inputs[0];
  if (!can_add(x.dtype)) return nullptr;
  return make_windows(
      Windows(x.shape, request.outputs[0].shape, request.attrs),
      with_summed(x.dtype, []<class T>() -> RunPooling { return VectorVariants<sum_of_windows<T>>::chosen(); }),
      sum_scratch(request.outputs[0]));
}

std::unique_ptr<Kernel> window_spread(const KernelRequest& request) {
  const ArrayType& y = request.inputs[0];
  if (!can_add(y.dtype)) return nullptr;
  return make_windows(
      Windows(request.outputs[0].shape, y.shape, request.attrs),
      with_summed(y.dtype, []<class T>() -> RunPooling { return VectorVariants<spread_over_windows<T>>::chosen(); }),
      sum_scratch(request.outputs[0]));
}

}  // namespace lockstep::backend::cpu::kernels
