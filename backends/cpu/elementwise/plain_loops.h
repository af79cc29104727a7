#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

#include "backends/cpu/function_kernel.h"
#include "backends/cpu/loop_nest.h"
#include "backends/cpu/vector_variants.h"

namespace lockstep::backend::cpu {

/// An operand of a row: elements one after the other, or one for the whole row.
template <class T>
struct Consecutive {
  static constexpr bool advances = true;
  const T* elements;
  T operator[](std::int64_t i) const { return elements[i]; }
};
template <class T>
struct Same {
  static constexpr bool advances = false;
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
/// vectorise, then maps. One operand at least has step 1.
template <class Out, class F, class... Chosen>
void choose_row(F f, std::int64_t n, Out* out, std::tuple<>, Chosen... chosen) {
  if constexpr ((Chosen::advances || ...)) map_row(f, n, out, chosen...);
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

/// A row of N operands, whatever their element types: its length, where each begins, and its steps in elements.
template <std::size_t N>
struct Row {
  std::int64_t n;
  void* out;
  std::array<const void*, N> operands;
  std::array<std::int64_t, N> steps;

  template <class T>
  Strided<T> operand(std::size_t k) const {
    return {static_cast<const T*>(operands[k]), steps[k]};
  }
  /// Steps 1 and 0 alone, and not all 0.
  bool is_plain() const {
    bool advances = false;
    for (const std::int64_t step : steps) {
      if (step != 0 && step != 1) return false;
      advances = advances || step == 1;
    }
    return advances;
  }
};

template <class Out, class F, class... In>
struct RowsOf {
  static constexpr std::size_t N = sizeof...(In);

  static void plain(const Row<N>& row) {
    with_operands(row, [&](auto... operands) {
      choose_row(F{}, row.n, static_cast<Out*>(row.out), std::tuple<Strided<In>...>(operands...));
    });
  }
  static void strided(const Row<N>& row) {
    with_operands(row, [&](auto... operands) { map_row(F{}, row.n, static_cast<Out*>(row.out), operands...); });
  }

 private:
  template <class Then>
  static void with_operands(const Row<N>& row, Then then) {
    [&]<std::size_t... K>(std::index_sequence<K...>) { then(row.template operand<In>(K)...); }
    (std::index_sequence_for<In...>());
  }
};

/// Runs rows over operands of any strides. The walk is compiled once for each number of operands, not for each op.
template <std::size_t N>
struct RunRows {
  void (*plain)(const Row<N>&);
  void (*strided)(const Row<N>&);

  void operator()(const KernelArguments& arguments) const {
    const ArrayView& out = arguments.outputs[0];
    std::array<const std::int64_t*, N + 1> strides{out.strides.data()};
    std::array<std::int64_t, N + 1> sizes{static_cast<std::int64_t>(size_of(out.dtype))};
    for (std::size_t k = 0; k < N; ++k) {
      strides[k + 1] = arguments.inputs[k].strides.data();
      sizes[k + 1] = static_cast<std::int64_t>(size_of(arguments.inputs[k].dtype));
    }
    const LoopNest<N + 1> nest(out.shape, strides);
    // All rows of a walk have the same steps.
    Row<N> row{};
    for (std::size_t k = 0; k < N; ++k) row.steps[k] = nest.inner_step(k + 1);
    const auto run = row.is_plain() ? plain : strided;
    nest.for_each_row([&](const auto& offsets, std::int64_t n, const auto&) {
      row.n = n;
      row.out = static_cast<std::byte*>(out.data) + offsets[0] * sizes[0];
      for (std::size_t k = 0; k < N; ++k) {
        row.operands[k] = static_cast<const std::byte*>(arguments.inputs[k].data) + offsets[k + 1] * sizes[k + 1];
      }
      run(row);
    });
  }
};

/// A kernel out[i] = f(in0[i], in1[i], ...) over element types Out and In...; any strides, in place where types agree.
/// f captures nothing: it is made anew where it is called.
template <class Out, class... In, class F>
std::unique_ptr<Kernel> make_map(const KernelRequest& request, F) {
  using Rows = RowsOf<Out, F, In...>;
  return make_function_kernel(RunRows<sizeof...(In)>{&Rows::plain, &Rows::strided},
                              {.strided = true, .in_place = in_place_inputs(request)});
}

/// The same, plain rows compiled for each level of vector instructions: for an `f` of single IEEE operations, whose bits
/// are equal in all of them.
template <class Out, class... In, class F>
std::unique_ptr<Kernel> make_vector_map(const KernelRequest& request, F) {
  using Rows = RowsOf<Out, F, In...>;
  return make_function_kernel(RunRows<sizeof...(In)>{VectorVariants<&Rows::plain>::chosen(), &Rows::strided},
                              {.strided = true, .in_place = in_place_inputs(request)});
}

/// The same of one operand with an `f` that holds numbers, such as an attribute.
template <class Out, class In, class F>
std::unique_ptr<Kernel> make_map_with(const KernelRequest& request, F f) {
  return make_function_kernel(
      [f](const KernelArguments& arguments) {
        const ArrayView& out = arguments.outputs[0];
        const ArrayView& in = arguments.inputs[0];
        const LoopNest<2> nest(out.shape, {out.strides.data(), in.strides.data()});
        nest.for_each_row([&](const auto& offsets, std::int64_t n, const auto& steps) {
          const In* row = static_cast<const In*>(in.data) + offsets[1];
          map_row(f, n, static_cast<Out*>(out.data) + offsets[0], Strided<In>{row, steps[1]});
        });
      },
      {.strided = true, .in_place = in_place_inputs(request)});
}

}  // namespace lockstep::backend::cpu
