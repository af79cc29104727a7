#include <algorithm>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "backends/cpu/around.h"
#include "backends/cpu/element_types.h"
#include "backends/cpu/function_kernel.h"
#include "backends/cpu/kernel_makers.h"

namespace lockstep::backend::cpu::kernels {

namespace {

/// NaN stands last, zeros of both signs are equal; complex numbers by real and then imaginary part.
template <class T>
bool sorts_before(T a, T b) {
  if (a != a || b != b) return a == a;
  return a < b;
}
template <class T>
bool sorts_before(std::complex<T> a, std::complex<T> b) {
  if (sorts_before(a.real(), b.real())) return true;
  return !sorts_before(b.real(), a.real()) && sorts_before(a.imag(), b.imag());
}

template <class T>
struct Before {
  bool operator()(T a, T b) const { return sorts_before(static_cast<Wide<T>>(a), static_cast<Wide<T>>(b)); }
};

/// Stable-sorts the positions in [first, last) by the elements x[position * step].
using SortPositions = void (*)(const void* x, std::int64_t step, std::int64_t* first, std::int64_t* last);

template <class T>
void sort_positions(const void* x, std::int64_t step, std::int64_t* first, std::int64_t* last) {
  const T* keys = static_cast<const T*>(x);
  std::stable_sort(first, last,
                   [=](std::int64_t a, std::int64_t b) { return Before<T>{}(keys[a * step], keys[b * step]); });
}

using PickElements = void (*)(const void* x, void* out, std::int64_t step, const std::vector<std::int64_t>& order);

template <class T>
void pick_elements(const void* x, void* out, std::int64_t step, const std::vector<std::int64_t>& order) {
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(out);
  for (std::size_t k = 0; k < order.size(); ++k) {
    to[static_cast<std::int64_t>(k) * step] = from[order[k] * step];
  }
}

template <class F>
auto with_key(DType dtype, F&& f) {
  return is_complex(dtype) ? with_complex(dtype, f) : with_real(dtype, f);
}

struct SortOperand {
  std::int64_t width;
  SortPositions sort;  ///< Null for what is no key.
  PickElements pick;
};

/// Positions are sorted by the last key first: each stable pass keeps the order of those before it among equal ones.
void sort_lines(const Around& around, const std::vector<SortOperand>& operands, const KernelArguments& arguments) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(around.extent));
  for (std::int64_t o = 0; o < around.outer; ++o) {
    for (std::int64_t i = 0; i < around.inner; ++i) {
      const std::int64_t start = o * around.extent * around.inner + i;
      const auto element = [&](const ArrayView& view, const SortOperand& operand) {
        return static_cast<std::byte*>(view.data) + start * operand.width;
      };
      std::iota(order.begin(), order.end(), std::int64_t{0});
      for (std::size_t k = operands.size(); k-- > 0;) {
        if (operands[k].sort == nullptr) continue;
        operands[k].sort(element(arguments.inputs[k], operands[k]), around.inner, order.data(),
                         order.data() + order.size());
      }
      for (std::size_t k = 0; k < operands.size(); ++k) {
        operands[k].pick(element(arguments.inputs[k], operands[k]), element(arguments.outputs[k], operands[k]),
                         around.inner, order);
      }
    }
  }
}

}  // namespace

std::unique_ptr<Kernel> sort(const KernelRequest& request) {
  const Around around(request.inputs[0].shape, static_cast<int>(request.attrs.get<std::int64_t>("axis")));
  const auto keys = static_cast<std::size_t>(request.attrs.get<std::int64_t>("num_keys"));
  std::vector<SortOperand> operands;
  for (std::size_t k = 0; k < request.inputs.size(); ++k) {
    const DType dtype = request.inputs[k].dtype;
    SortOperand operand{static_cast<std::int64_t>(size_of(dtype)), nullptr, nullptr};
    operand.pick = with_moved(dtype, [&]<class T>() { return PickElements(pick_elements<T>); });
    if (k < keys) operand.sort = with_key(dtype, [&]<class T>() { return SortPositions(sort_positions<T>); });
    operands.push_back(operand);
  }
  return make_function_kernel(
      [around, operands](const KernelArguments& arguments) { sort_lines(around, operands, arguments); });
}

}  // namespace lockstep::backend::cpu::kernels
