#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "backends/aten/function_kernel.h"
#include "backends/aten/loop_nest.h"

namespace lockstep::backends::aten {

/// out[i] = f(in[i * step]...). Rows whose operands all run with step 1, or with step 1 and 0, get a loop of their own,
/// which the compiler can vectorise; `out` may be one of the operands.
template <class Out, class F, class A>
void map_row(F f, std::int64_t n, Out* out, const std::array<std::int64_t, 1>& steps, const A* a) {
  if (steps[0] == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i * steps[0]]);
  }
}

template <class Out, class F, class A, class B>
void map_row(F f, std::int64_t n, Out* out, const std::array<std::int64_t, 2>& steps, const A* a, const B* b) {
  if (steps[0] == 1 && steps[1] == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
  } else if (steps[0] == 1 && steps[1] == 0) {
    const B same = *b;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i], same);
  } else if (steps[0] == 0 && steps[1] == 1) {
    const A same = *a;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(same, b[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i * steps[0]], b[i * steps[1]]);
  }
}

template <class Out, class F, class A, class B, class C>
void map_row(F f, std::int64_t n, Out* out, const std::array<std::int64_t, 3>& steps, const A* a, const B* b,
             const C* c) {
  if (steps[0] == 1 && steps[1] == 1 && steps[2] == 1) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i], c[i]);
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i * steps[0]], b[i * steps[1]], c[i * steps[2]]);
  }
}

template <class Out, class F, class... In, std::size_t... K>
void map_views(const KernelArguments& arguments, std::tuple<In...>*, std::index_sequence<K...>) {
  const ArrayView& out = arguments.outputs[0];
  const LoopNest<sizeof...(In) + 1> nest(out.shape, {out.strides.data(), arguments.inputs[K].strides.data()...});
  nest.for_each_row([&](const auto& offsets, std::int64_t n, const auto& steps) {
    map_row(F{}, n, static_cast<Out*>(out.data) + offsets[0], {steps[K + 1]...},
            static_cast<const In*>(arguments.inputs[K].data) + offsets[K + 1]...);
  });
}

template <class Out, class F, class... In>
void run_map(const KernelArguments& arguments) {
  map_views<Out, F>(arguments, static_cast<std::tuple<In...>*>(nullptr), std::index_sequence_for<In...>());
}

/// A kernel out[i] = f(in0[i], in1[i], ...) over element types Out and In...; any strides, in place where types agree.
/// f captures nothing: it is made anew where it is called, so that all these kernels are of one class.
template <class Out, class... In, class F>
std::unique_ptr<Kernel> make_map(const KernelRequest& request, F) {
  return make_function_kernel(request, &run_map<Out, F, In...>,
                              {.strided = true, .in_place = in_place_inputs(request)});
}

}  // namespace lockstep::backends::aten
