#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "engine/core/fold_tree.h"
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

constexpr auto added = [](auto a, auto b) {
  using T = decltype(a);
  if constexpr (std::is_same_v<T, std::int64_t>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return static_cast<T>(a + b);
  }
};

/// Where the order of the sum is asked for: how many equal blocks of the axis are added up in order and joined in pairs.
std::vector<ArrayType> infer_reduce_sum(const ir::InferContext& context) {
  std::vector<ArrayType> results = infer::reduction(infer::numeric)(context);
  if (!context.attrs.has("sum_blocks")) return results;
  const auto& axes = context.attrs.get<Dims>("axes");
  const auto blocks = context.attrs.get<std::int64_t>("sum_blocks");
  const DType dtype = context.inputs[0].dtype;
  const bool is_power = blocks > 0 && std::has_single_bit(static_cast<std::uint64_t>(blocks));
  const bool fits = is_power && axes.size() == 1 && context.inputs[0].shape[static_cast<int>(axes[0])] % blocks == 0;
  if (fits && (dtype == DType::float32 || dtype == DType::float64)) return results;
  infer::shape_error(context,
                     "float32 or float64, one axis, and a sum_blocks that is a power of two and divides it, not " +
                         std::to_string(blocks),
                     "leave sum_blocks out");
}

/// In blocks where that is asked for.
void reduce_sum_reference(const ir::ReferenceContext& context) {
  if (!context.attrs.has("sum_blocks")) {
    static const ir::Reference in_order = reduces<double, std::uint64_t, std::int64_t, Complex>(Zero{}, added);
    in_order(context);
    return;
  }
  const Shape& shape = context.inputs[0].type.shape;
  const auto axis = static_cast<int>(context.attrs.get<Dims>("axes")[0]);
  const auto blocks = context.attrs.get<std::int64_t>("sum_blocks");
  std::int64_t inner = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  const std::int64_t length = shape[axis] / blocks;
  for (std::int64_t r = 0; r < context.outputs[0].type.size(); ++r) {
    const std::int64_t first = r / inner * shape[axis] * inner + r % inner;
    const auto block = [&](std::int64_t number, TreeNode) {
      double sum = 0;
      for (std::int64_t k = number * length; k < (number + 1) * length; ++k) {
        sum += reference::load<double>(context.inputs[0], first + k * inner);
      }
      return sum;
    };
    const auto joined = [](double left, double right, TreeNode) { return left + right; };
    reference::store(context.outputs[0], r, fold_tree<double>(0, blocks, block, joined));
  }
}

/// The reduced axes moved behind the others and merged: [kept, reduced].
Value reduced_merged_last(const Value& x, const Dims& axes) {
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
  Value x = reduced_merged_last(context.inputs[0], axes);
  Value dx = reduced_merged_last(*context.tangents[0], axes);
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

std::vector<ir::ErrorSample> sum_errors() {
  std::vector<ir::ErrorSample> list = reduction_errors(DType::bool_)();
  const auto of = [](DType dtype, Dims axes) {
    return ir::ErrorSample{{{dtype, {4, 6}, {}}},
                           {{"axes", std::move(axes)}, {"sum_blocks", std::int64_t{4}}},
                           "a sum_blocks that is a power of two and divides it, not 4",
                           {}};
  };
  list.push_back(of(DType::float32, {1}));
  list.push_back(of(DType::float32, {0, 1}));
  list.push_back(of(DType::bfloat16, {0}));
  return list;
}

}  // namespace

const Primitive& primitives::reduce_sum() {
  static const Primitive op{.name = "reduce_sum",
                            .infer = infer_reduce_sum,
                            .derivative = derivative::linear_in_one(0, sum_transpose),
                            .batch = batch::reducer(reduce_sum),
                            .reference = reduce_sum_reference,
                            .flops = flops::per_element(0),
                            .samples =
                                [] {
                                  std::vector<ir::Sample> list = reduction_samples(
                                      {DType::float64, DType::float32, DType::bfloat16, DType::float16, DType::int32,
                                       DType::int64, DType::uint8, DType::complex64},
                                      -2, 3);
                                  for (const DType dtype : {DType::float32, DType::float64}) {
                                    for (const std::int64_t axis : {0, 1, 2}) {
                                      list.push_back({{samples::input(dtype, {4, 8, 36}, {.low = 0.5, .high = 2})},
                                                      {{"axes", Dims{axis}}, {"sum_blocks", std::int64_t{4}}},
                                                      {}});
                                    }
                                  }
                                  return list;
                                },
                            .error_samples = sum_errors,
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
