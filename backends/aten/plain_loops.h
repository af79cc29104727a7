#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "backends/aten/function_kernel.h"
#include "backends/aten/loop_nest.h"
#include "backends/vector_variants.h"

namespace lockstep::backends::aten {

/// An operand of a row: elements one after the other, or one for the whole row.
template <class T>
struct Consecutive {
  const T* elements;
  T operator[](std::int64_t i) const { return elements[i]; }
};
template <class T>
struct Same {
  T element;
  T operator[](std::int64_t) const { return element; }
};
template <class T>
struct Strided {
  const T* elements;
  std::int64_t step;
  T operator[](std::int64_t i) const { return elements[i * step]; }
};

/// out[i] = f(operands[i]...); `out` may be the elements of an operand.
template <class Out, class F, class... Operands>
void map_row(F f, std::int64_t n, Out* out, Operands... operands) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) out[i] = f(operands[i]...);
}

/// Chooses for each operand how the row runs through it, so that rows of steps 1 and 0 get loops that the compiler can
/// vectorise, then maps.
template <class Out, class F, class... Chosen>
void choose_row(F f, std::int64_t n, Out* out, std::tuple<>, Chosen... chosen) {
  map_row(f, n, out, chosen...);
}
template <class Out, class F, class T, class... Rest, class... Chosen>
void choose_row(F f, std::int64_t n, Out* out, std::tuple<Strided<T>, Rest...> operands, Chosen... chosen) {
  const Strided<T> next = std::get<0>(operands);
  const std::tuple<Rest...> rest =
      std::apply([](const auto&, const auto&... others) { return std::tuple(others...); }, operands);
  if (next.step == 1) {
    choose_row(f, n, out, rest, chosen..., Consecutive<T>{next.elements});
  } else {
    choose_row(f, n, out, rest, chosen..., Same<T>{*next.elements});
  }
}

template <class Out, class F, class... In>
void map_any_row(F f, std::int64_t n, Out* out, Strided<In>... operands) {
  if (((operands.step == 0 || operands.step == 1) && ...)) {
    choose_row(f, n, out, std::tuple<Strided<In>...>(operands...));
  } else {
    map_row(f, n, out, operands...);
  }
}

template <class Out, class F, class... In, std::size_t... K>
void map_views(const KernelArguments& arguments, std::tuple<In...>*, std::index_sequence<K...>) {
  const ArrayView& out = arguments.outputs[0];
  const LoopNest<sizeof...(In) + 1> nest(out.shape, {out.strides.data(), arguments.inputs[K].strides.data()...});
  nest.for_each_row([&](const auto& offsets, std::int64_t n, const auto& steps) {
    map_any_row(F{}, n, static_cast<Out*>(out.data) + offsets[0],
                Strided<In>{static_cast<const In*>(arguments.inputs[K].data) + offsets[K + 1], steps[K + 1]}...);
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

/// The same, compiled for each level of vector instructions: for an `f` of single IEEE operations, whose bits are equal
/// in all of them.
template <class Out, class... In, class F>
std::unique_ptr<Kernel> make_vector_map(const KernelRequest& request, F) {
  return make_function_kernel(request, VectorVariants<run_map<Out, F, In...>>::chosen(),
                              {.strided = true, .in_place = in_place_inputs(request)});
}

/// The same of one operand with an `f` that holds numbers, such as an attribute.
template <class Out, class In, class F>
std::unique_ptr<Kernel> make_map_with(const KernelRequest& request, F f) {
  return make_function_kernel(request,
                              [f](const KernelArguments& arguments) {
                                const ArrayView& out = arguments.outputs[0];
                                const ArrayView& in = arguments.inputs[0];
                                const LoopNest<2> nest(out.shape, {out.strides.data(), in.strides.data()});
                                nest.for_each_row([&](const auto& offsets, std::int64_t n, const auto& steps) {
                                  map_any_row(f, n, static_cast<Out*>(out.data) + offsets[0],
                                              Strided<In>{static_cast<const In*>(in.data) + offsets[1], steps[1]});
                                });
                              },
                              {.strided = true, .in_place = in_place_inputs(request)});
}

}  // namespace lockstep::backends::aten
