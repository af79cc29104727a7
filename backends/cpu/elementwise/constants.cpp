#include <cstdint>
#include <variant>
#include <vector>

#include "backends/cpu/element_types.h"
#include "backends/cpu/elementwise/plain_loops.h"
#include "backends/cpu/kernel_makers.h"
#include "backends/cpu/moves/moves.h"

namespace lockstep::backend::cpu::kernels {

namespace {

template <class T>
std::unique_ptr<Kernel> make_fill(T element) {
  return make_function_kernel(
      [element](const KernelArguments& arguments) { fill_elements(arguments.outputs[0], &element); });
}

}  // namespace

std::unique_ptr<Kernel> full(const KernelRequest& request) {
  const DType dtype = request.outputs[0].dtype;
  const AttrValue& value = request.attrs.at("value");
  if (const bool* truth = std::get_if<bool>(&value)) return make_fill<std::uint8_t>(*truth ? 1 : 0);
  if (const std::int64_t* integer = std::get_if<std::int64_t>(&value)) {
    return with_bits(dtype, [&]<class T>() { return make_fill<T>(static_cast<T>(*integer)); });
  }
  const double real = std::get<double>(value);
  if (is_complex(dtype)) {
    return with_complex(dtype, [&]<class T>() { return make_fill<T>(T(static_cast<typename T::value_type>(real))); });
  }
  return with_float(dtype, [&]<class T>() { return make_fill<T>(rounded<T>(real)); });
}

std::unique_ptr<Kernel> iota(const KernelRequest& request) {
  const auto dim = static_cast<int>(request.attrs.get<std::int64_t>("dim"));
  const Shape& shape = request.outputs[0].shape;
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (int d = 0; d < dim; ++d) outer *= shape[d];
  for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
  if (is_complex(request.outputs[0].dtype)) return nullptr;
  return with_real(request.outputs[0].dtype, [&]<class T>() {
    return make_function_kernel([outer, extent = shape[dim], inner](const KernelArguments& arguments) {
      T* out = static_cast<T*>(arguments.outputs[0].data);
      for (std::int64_t o = 0; o < outer; ++o) {
        for (std::int64_t i = 0; i < extent; ++i) {
          out = std::fill_n(out, inner, rounded<T>(i));
        }
      }
    });
  });
}

}  // namespace lockstep::backend::cpu::kernels
