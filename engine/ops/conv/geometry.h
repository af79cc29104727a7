#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/ir/primitive.h"
#include "engine/ops/values.h"

namespace lockstep::ops {

/// The three arrays of a convolution and how they meet. Extents of batch N, features C and O; per spatial dimension the
/// extent of the input, of the window and of the output.
struct ConvGeometry {
  std::int64_t batch = 0;
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  std::int64_t groups = 1;
  Dims in, window, out;
  Dims strides, dilation, low, high;

  int spatial() const { return static_cast<int>(in.size()); }
  Shape x() const;
  Shape kernel() const;
  Shape y() const;
};

/// Throw ShapeError or DtypeError in the name of `context.op` where shapes, dtypes and attributes do not fit.
ConvGeometry geometry_of_conv(const ir::InferContext& context);
ConvGeometry geometry_of_input_grad(const ir::InferContext& context);
ConvGeometry geometry_of_kernel_grad(const ir::InferContext& context);

/// Strides, padding, dilation and groups as attributes.
struct ConvAttrs {
  Dims strides;
  std::vector<Dims> padding;
  Dims dilation;
  std::int64_t groups = 1;
};
Attrs conv_attrs(const ConvAttrs& attrs);

// The three ops on values; of `attrs` each takes strides, padding, dilation and groups.
Value conv(const Value& x, const Value& kernel, const Attrs& attrs);
Value conv_input_grad(const Value& y, const Value& kernel, const Attrs& attrs, const Dims& spatial);
Value conv_kernel_grad(const Value& x, const Value& y, const Attrs& attrs, const Dims& window);
/// Arithmetic operations of any of the three: each element of y meets a whole window, padding counted in.
double conv_flops(const ArrayType& y, const ArrayType& kernel);
/// Dimensions between the first `first` and the last `last` ones.
Dims middle(const Shape& shape, int first, int last);

/// The arrays of a convolution: one op gives each from the two others.
enum class ConvArray : std::uint8_t { x, kernel, y };
/// How they run together: the batch, and features where there is one group. What the result does not have is summed.
ir::Factors conv_factors(const ir::LayoutContext& context, ConvArray result);

/// Calls `visit(x index, kernel index, y index)` for every product of the convolution, indices row-major; the products
/// of one y element follow each other in row-major order of the kernel.
void for_each_product(const ConvGeometry& geometry,
                      const std::function<void(std::size_t, std::size_t, std::size_t)>& visit);

// ---- batching ------------------------------------------------------------------------------------------------------

/// Dimension 0 of `x` moved to stand before dimension `position` of the rest and merged with it.
Value merge_batch(const Value& x, int position);
/// The inverse: dimension `position` split into the batch of extent `size` and the rest, the batch moved to the front.
Value split_batch(const Value& x, int position, std::int64_t size);
/// As these, for a feature dimension that counts `groups` blocks: the batch goes between group and feature in it.
Value merge_batch_in_groups(const Value& x, int position, std::int64_t groups);
Value split_batch_in_groups(const Value& x, int position, std::int64_t size, std::int64_t groups);
/// Attributes with `groups` multiplied.
Attrs with_groups_times(const Attrs& attrs, std::int64_t factor);

/// The batching rule for batches of extent 1 or more; one of extent 0 becomes zeros of the result's shape.
ir::BatchRule conv_batch_rule(ir::Infer infer, std::function<Value(const ir::BatchContext&)> rule);

/// sum[at] += a[i] b[j], of integers modulo 2^n.
inline void add_product(ir::ReferenceArray& sum, std::size_t at, const ir::ReferenceArray& a, std::size_t i,
                        const ir::ReferenceArray& b, std::size_t j) {
  if (is_float(a.type.dtype)) {
    sum.floats()[at] += a.floats()[i] * b.floats()[j];
  } else {
    const auto product = static_cast<std::uint64_t>(a.integers()[i]) * static_cast<std::uint64_t>(b.integers()[j]);
    sum.integers()[at] = static_cast<std::int64_t>(static_cast<std::uint64_t>(sum.integers()[at]) + product);
  }
}

// ---- samples -------------------------------------------------------------------------------------------------------

struct ConvCase {
  Shape x, kernel, y;
  ConvAttrs attrs;
};
/// Valid cases that the samples of all three ops are made of.
std::vector<ConvCase> conv_cases();
/// Every case as a sample in float64 and float32, some in the half types.
using ConvSample = std::function<ir::Sample(DType, const ConvCase&)>;
std::vector<ir::Sample> conv_samples(const ConvSample& sample);

}  // namespace lockstep::ops
