#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "backends/aten/element_types.h"
#include "backends/aten/function_kernel.h"
#include "backends/aten/kernel_table.h"
#include "backends/aten/sums.h"
#include "backends/aten/window_moves.h"

namespace lockstep::backends::aten::kernels {

namespace {

std::size_t nbytes_of(const ArrayView& view) {
  return static_cast<std::size_t>(view.shape.size()) * size_of(view.dtype);
}

template <class T>
void gather_windows(const WindowMoves& moves, const KernelArguments& arguments) {
  const T* operand = static_cast<const T*>(arguments.inputs[0].data);
  T* out = static_cast<T*>(arguments.outputs[0].data);
  moves.for_each_row(arguments.inputs[1], [&](std::int64_t from, std::int64_t to, std::int64_t n,
                                              std::int64_t from_step, std::int64_t to_step) {
    if (from_step == 1 && to_step == 1) {
      std::copy_n(operand + from, n, out + to);
      return;
    }
    for (std::int64_t i = 0; i < n; ++i) out[to + i * to_step] = operand[from + i * from_step];
  });
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
struct Least {
  template <class T>
  T operator()(T least, T update) const {
    return (update < least) | (update != update) ? update : least;
  }
};
struct Largest {
  template <class T>
  T operator()(T largest, T update) const {
    return (update > largest) | (update != update) ? update : largest;
  }
};

/// result = operand, then every element that an update meets becomes combine(element, update), in order.
template <class T, class W, class Combine>
void scatter_windows(const WindowMoves& moves, const KernelArguments& arguments) {
  const ArrayView& operand = arguments.inputs[0];
  const ArrayView& out = arguments.outputs[0];
  const T* updates = static_cast<const T*>(arguments.inputs[2].data);
  constexpr bool widened = !std::is_same_v<T, W>;
  W* result = static_cast<W*>(widened ? arguments.scratch : out.data);
  if constexpr (widened) {
    std::copy_n(static_cast<const T*>(operand.data), out.shape.size(), result);
  } else if (out.data != operand.data && out.shape.size() > 0) {
    std::memcpy(out.data, operand.data, nbytes_of(out));
  }
  moves.for_each_row(arguments.inputs[1], [&](std::int64_t to, std::int64_t from, std::int64_t n, std::int64_t to_step,
                                              std::int64_t from_step) {
    for (std::int64_t i = 0; i < n; ++i) {
      W& element = result[to + i * to_step];
      element = Combine{}(element, static_cast<W>(updates[from + i * from_step]));
    }
  });
  if constexpr (widened) std::copy_n(result, out.shape.size(), static_cast<T*>(out.data));
}

using Run = void (*)(const WindowMoves&, const KernelArguments&);

std::unique_ptr<Kernel> make_scatter(const KernelRequest& request, Run run, std::size_t scratch_bytes = 0) {
  return make_function_kernel(
      request,
      [run, moves = WindowMoves::of_scatter(request)](const KernelArguments& arguments) { run(moves, arguments); },
      {.in_place = in_place_inputs(request) & 1U, .scratch_bytes = scratch_bytes});
}

template <class Combine>
std::unique_ptr<Kernel> make_arithmetic(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  if (!is_inexact(dtype) && !is_integer(dtype)) return nullptr;
  const Run run = with_summed(dtype, []<class T>() -> Run { return scatter_windows<T, Wide<T>, Combine>; });
  return make_scatter(request, run, sum_scratch(request.outputs[0]));
}

template <class Combine>
std::unique_ptr<Kernel> make_ordered(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  if (is_complex(dtype) || dtype == DType::key) return nullptr;
  return make_scatter(request, with_real(dtype, []<class T>() -> Run { return scatter_windows<T, T, Combine>; }));
}

}  // namespace

std::unique_ptr<Kernel> gather(const KernelRequest& request) {
  const Run run = with_moved(request.inputs[0].dtype, []<class T>() -> Run { return gather_windows<T>; });
  // What mode fill leaves out stays zero.
  const bool fills = request.attrs.get<std::string>("mode") == "fill";
  return make_function_kernel(request,
                              [run, fills, moves = WindowMoves::of_gather(request)](const KernelArguments& arguments) {
                                const ArrayView& out = arguments.outputs[0];
                                if (fills && out.shape.size() > 0) std::memset(out.data, 0, nbytes_of(out));
                                run(moves, arguments);
                              });
}

std::unique_ptr<Kernel> scatter(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  return make_scatter(request, with_moved(dtype, []<class T>() -> Run { return scatter_windows<T, T, Set>; }));
}

std::unique_ptr<Kernel> scatter_add(const KernelRequest& request) { return make_arithmetic<Add>(request); }
std::unique_ptr<Kernel> scatter_mul(const KernelRequest& request) { return make_arithmetic<Multiply>(request); }
std::unique_ptr<Kernel> scatter_min(const KernelRequest& request) { return make_ordered<Least>(request); }
std::unique_ptr<Kernel> scatter_max(const KernelRequest& request) { return make_ordered<Largest>(request); }

}  // namespace lockstep::backends::aten::kernels
