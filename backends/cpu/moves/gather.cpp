#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "backends/cpu/cut_kernel.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/moves/window_moves.h"
#include "backends/cpu/sums.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// gather_windows where they are contiguous.
template <class T>
void gather_contiguous(const WindowMoves& moves, const KernelArguments& arguments, Range vectors) {
  const T* operand = static_cast<const T*>(arguments.inputs[0].data);
  const std::int64_t n = moves.elements_of_window();
  T* out = static_cast<T*>(arguments.outputs[0].data);
  moves.for_each_start(arguments.inputs[1], vectors, [=](std::int64_t vector, std::int64_t start) {
    if (start < 0) {
      std::fill_n(out + vector * n, n, T{});
    } else if (n == 1) {
      out[vector] = operand[start];
    } else {
      std::copy_n(operand + start, n, out + vector * n);
    }
  });
}

template <class T>
void gather_windows(const WindowMoves& moves, const KernelArguments& arguments, Range vectors) {
  if (moves.are_contiguous()) return gather_contiguous<T>(moves, arguments, vectors);
  const T* operand = static_cast<const T*>(arguments.inputs[0].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  const auto visit = [&](std::int64_t from, std::int64_t to, std::int64_t n, std::int64_t from_step,
                         std::int64_t to_step) {
    for (std::int64_t i = 0; i < n; ++i) out[to + i * to_step] = operand[from + i * from_step];
  };
  const auto leave_zero = [&](std::int64_t to, std::int64_t n, std::int64_t to_step) {
    for (std::int64_t i = 0; i < n; ++i) out[to + i * to_step] = T{};
  };
  moves.for_each_row(arguments.inputs[1], vectors, visit, leave_zero);
}

struct Set {
  template <class T>
  T operator()(T, T update) const {
    return update;
  }
};
struct Add {
  template <class T>
  T operator()(T sum, T update) const {
    return static_cast<T>(sum + update);
  }
};
struct Multiply {
  template <class T>
  T operator()(T product, T update) const {
    // Narrow integers are widened to int by the language, where products of uint16 could overflow.
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(static_cast<std::uint64_t>(product) * static_cast<std::uint64_t>(update));
    } else {
      return product * update;
    }
  }
};
struct LesserUpdate {
  template <class T>
  T operator()(T least, T update) const {
    return (update < least) | (update != update) ? update : least;
  }
};
struct LargerUpdate {
  template <class T>
  T operator()(T largest, T update) const {
    return (update > largest) | (update != update) ? update : largest;
  }
};

/// combine_windows where they are contiguous.
template <class T, class W, class Combine>
void combine_contiguous(const WindowMoves& moves, const KernelArguments& arguments, Range range,
                        const Columns<T, W>& columns) {
  const T* updates = static_cast<const T*>(arguments.inputs[2].data) + range.first;
  const std::int64_t pitch = moves.elements_of_window(), n = moves.columns() == 1 ? pitch : columns.count();
  moves.for_each_start(arguments.inputs[1], {0, moves.vectors()}, [=](std::int64_t vector, std::int64_t start) {
    if (start < 0) return;
    W* __restrict elements = columns.at(start);
    const T* __restrict given = updates + vector * pitch;
    for (std::int64_t i = 0; i < n; ++i) elements[i] = Combine{}(elements[i], static_cast<W>(given[i]));
  });
}

template <class T, class W, class Combine>
void combine_windows(const WindowMoves& moves, const KernelArguments& arguments, Range range,
                     const Columns<T, W>& columns) {
  const T* updates = static_cast<const T*>(arguments.inputs[2].data);
  const auto combine = [&](std::int64_t to, std::int64_t from, std::int64_t n, std::int64_t to_step,
                           std::int64_t from_step) {
    W* elements = columns.at(to);
    const T* given = updates + from + range.first * from_step;
    if (moves.columns() > 1) n = columns.count();
    for (std::int64_t i = 0; i < n; ++i) {
      W& element = elements[i * to_step];
      element = Combine{}(element, static_cast<W>(given[i * from_step]));
    }
  };
  moves.for_each_row(arguments.inputs[1], {0, moves.vectors()}, combine, [](auto...) {});
}

/// result = operand, then every element that an update meets becomes combine(element, update), in order. Of windows of
/// whole rows only the given columns are.
template <class T, class W, class Combine>
void scatter_windows(const WindowMoves& moves, const KernelArguments& arguments, Range range) {
  const Columns<T, W> columns(arguments, moves.columns(), range);
  columns.set_to(static_cast<const T*>(arguments.inputs[0].data) + range.first);
  const auto combine = moves.are_contiguous() ? combine_contiguous<T, W, Combine> : combine_windows<T, W, Combine>;
  combine(moves, arguments, range, columns);
  columns.finish();
}

using RunWindows = void (*)(const WindowMoves&, const KernelArguments&, Range);

std::unique_ptr<Kernel> make_scatter(const KernelRequest& request, RunWindows run, std::size_t scratch_bytes = 0) {
  const WindowMoves moves = WindowMoves::of_scatter(request);
  const Cut cut = Cut::of_moves(moves.columns(), request.inputs[2].nbytes(), columns_apart(request.outputs[0].dtype));
  return make_cut_kernel(
      cut, [run, moves](const KernelArguments& arguments, Range columns) { run(moves, arguments, columns); },
      {.in_place = in_place_inputs(request) & 1U, .scratch_bytes = scratch_bytes});
}

template <class Combine>
std::unique_ptr<Kernel> make_arithmetic(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  if (!can_add(dtype)) return nullptr;
  const RunWindows run =
      with_summed(dtype, []<class T>() -> RunWindows { return scatter_windows<T, Wide<T>, Combine>; });
  return make_scatter(request, run, sum_scratch(request.outputs[0]));
}

template <class Combine>
std::unique_ptr<Kernel> make_ordered(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  if (is_complex(dtype) || dtype == DType::key) return nullptr;
  return make_scatter(request,
                      with_real(dtype, []<class T>() -> RunWindows { return scatter_windows<T, T, Combine>; }));
}

}  // namespace

std::unique_ptr<Kernel> gather(const KernelRequest& request) {
  const RunWindows run = with_moved(request.inputs[0].dtype, []<class T>() -> RunWindows { return gather_windows<T>; });
  WindowMoves moves = WindowMoves::of_gather(request);
  const Cut cut = Cut::of_moves(moves.vectors(), request.outputs[0].nbytes());
  return make_cut_kernel(cut, [run, moves = std::move(moves)](const KernelArguments& arguments, Range vectors) {
    run(moves, arguments, vectors);
  });
}

std::unique_ptr<Kernel> scatter(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  return make_scatter(request, with_moved(dtype, []<class T>() -> RunWindows { return scatter_windows<T, T, Set>; }));
}

std::unique_ptr<Kernel> scatter_add(const KernelRequest& request) { return make_arithmetic<Add>(request); }
std::unique_ptr<Kernel> scatter_mul(const KernelRequest& request) { return make_arithmetic<Multiply>(request); }
std::unique_ptr<Kernel> scatter_min(const KernelRequest& request) { return make_ordered<LesserUpdate>(request); }
std::unique_ptr<Kernel> scatter_max(const KernelRequest& request) { return make_ordered<LargerUpdate>(request); }

}  // namespace lockstep::backend::cpu::kernels
