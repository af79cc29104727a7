#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "engine/ops/reduce/reduce.h"
#include "engine/ops/rules/layout.h"

namespace lockstep::ops {

namespace {

Value sum_transpose(const TransposeContext& context, const Value& ct) {
  return broadcast_reduced(ct, context.input_types[0].shape, context.attrs.get<Dims>("axes"));
}

struct One {
  template <class T>
  T operator()(DType) const {
    return T{1};
  }
};

struct Zero {
  template <class T>
  T operator()(DType) const {
    return T{};
  }
};

/// The reduced axes moved behind the others and merged: [kept, reduced].
Value merged(const Value& x, const Dims& axes) {
  Dims permutation;
  for (std::int64_t d = 0; d < x.rank(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) permutation.push_back(d);
  }
  permutation.insert(permutation.end(), axes.begin(), axes.end());
  const std::int64_t reduced = reduced_size(x.shape(), axes);
  return reshape(transpose(x, permutation), Shape{x.type().size() / reduced, reduced});
}

/// Columns first, first + 2, ...
Value every_second(const Value& x, std::int64_t first) {
  return slice(x, {0, first}, {x.shape()[0], x.shape()[1]}, {1, 2});
}

/// By the product rule, pairs of columns at a time: right where factors are zero, and no division.
std::vector<Tangent> prod_jvp(const JvpContext& context) {
  const auto& axes = context.attrs.get<Dims>("axes");
  if (context.inputs[0].type().size() == 0) return {std::nullopt};
  Value x = merged(context.inputs[0], axes);
  Value dx = merged(*context.tangents[0], axes);
  while (x.shape()[1] > 1) {
    if (x.shape()[1] % 2 == 1) {
      x = pad(x, 1, {0, 0}, {0, 1}, {0, 0});
      dx = pad(dx, 0, {0, 0}, {0, 1}, {0, 0});
    }
    const Value left = every_second(x, 0), right = every_second(x, 1);
    dx = every_second(dx, 0) * right + every_second(dx, 1) * left;
    x = left * right;
  }
  return {reshape(dx, context.outputs[0].shape())};
}

}  // namespace

const Primitive& primitives::reduce_sum() {
  static const Primitive op{
      .name = "reduce_sum",
      .infer = infer::reduction(infer::numeric),
      .derivative = derivative::linear_in_one(0, sum_transpose),
      .batch = batch::reducer(reduce_sum),
      .reference = reduces<double, std::uint64_t, std::int64_t, Complex>(
          Zero{},
          [](auto a, auto b) {
            using T = decltype(a);
            if constexpr (std::is_same_v<T, std::int64_t>) {
              return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
            } else {
              return static_cast<T>(a + b);
            }
          }),
      .flops = flops::per_element(0),
      .samples =
          [] {
            return reduction_samples({DType::float64, DType::float32, DType::bfloat16, DType::float16, DType::int32,
                                      DType::int64, DType::uint8, DType::complex64},
                                     -2, 3);
          },
      .error_samples = reduction_errors(DType::bool_),
      .traits = {.in_loops = loops::same<loops::real>, .loop_sum = true},
      .layout = layout::reduction(ir::Factor::Kind::sum)};
  return op;
}

const Primitive& primitives::reduce_prod() {
  static const Primitive op{
      .name = "reduce_prod",
      .infer = infer::reduction(infer::numeric),
      .derivative = derivative::jvp(prod_jvp),
      .batch = batch::reducer(reduce_prod),
      .reference = reduces<double, std::uint64_t, std::int64_t, Complex>(
          One{},
          [](auto a, auto b) {
            using T = decltype(a);
            if constexpr (std::is_same_v<T, std::int64_t>) {
              return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
            } else {
              return static_cast<T>(a * b);
            }
          }),
      .flops = flops::per_element(0),
      .samples =
          [] {
            return reduction_samples({DType::float64, DType::float32, DType::int32, DType::int64, DType::uint8}, -1.5,
                                     2);
          },
      .error_samples = reduction_errors(DType::bool_),
      .traits = {},
      .layout = layout::reduction(ir::Factor::Kind::whole)};
  return op;
}

}  // namespace lockstep::ops
