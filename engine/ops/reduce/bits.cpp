#include <cstdint>
#include <type_traits>

#include "engine/ops/reduce/reduce.h"

namespace lockstep::ops {

namespace {

struct AllOnes {
  template <class T>
  T operator()(DType dtype) const {
    if constexpr (std::is_same_v<T, bool>) {
      return true;
    } else if constexpr (std::is_same_v<T, std::int64_t>) {
      return -1;
    } else {
      return ~T{0} >> (64 - static_cast<int>(size_of(dtype)) * 8);
    }
  }
};

struct NoBit {
  template <class T>
  T operator()(DType) const {
    return T{};
  }
};

template <class First, class F>
Primitive bit_reduction(std::string name, PrimitiveGetter self, First first, F f) {
  return {.name = std::move(name),
          .infer = infer::reduction(infer::bits),
          .derivative = derivative::zero(),
          .batch = batch::reducer(self),
          .reference = reduces<std::int64_t, std::uint64_t, bool>(
              first, [f](auto a, auto b) { return static_cast<decltype(a)>(f(a, b)); }),
          .flops = flops::per_element(0),
          .samples =
              [] {
                return reduction_samples({DType::int32, DType::int64, DType::int8, DType::uint8, DType::bool_}, -9, 9);
              },
          .error_samples = reduction_errors(DType::float32, DType::int32),
          .traits = {}};
}

}  // namespace

const Primitive& primitives::reduce_and() {
  static const Primitive op = bit_reduction("reduce_and", reduce_and, AllOnes{}, [](auto a, auto b) { return a & b; });
  return op;
}

const Primitive& primitives::reduce_or() {
  static const Primitive op = bit_reduction("reduce_or", reduce_or, NoBit{}, [](auto a, auto b) { return a | b; });
  return op;
}

const Primitive& primitives::reduce_xor() {
  static const Primitive op = bit_reduction("reduce_xor", reduce_xor, NoBit{}, [](auto a, auto b) { return a ^ b; });
  return op;
}

}  // namespace lockstep::ops
