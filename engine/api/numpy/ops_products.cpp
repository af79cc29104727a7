#include <string_view>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/numpy/weak_types.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

Axes range(int first, int last) {
  Axes axes;
  for (int i = first; i < last; ++i) axes.push_back(i);
  return axes;
}

Axes resolve(const Axes& axes, int rank) {
  Axes resolved;
  const std::string_view op = ops::primitives::dot_general().name;
  for (const std::int64_t axis : axes) resolved.push_back(normalize_axis(axis, rank, op));
  return resolved;
}

/// Both with leading dimensions: those are broadcast, the last two multiplied.
Array batched_matmul(const Array& a, const Array& b) {
  const int a_batch = a.ndim() - 2;
  const int b_batch = b.ndim() - 2;
  const Shape batch = broadcast_shapes(Shape(a.shape().dims().first(static_cast<std::size_t>(a_batch))),
                                       Shape(b.shape().dims().first(static_cast<std::size_t>(b_batch))), "matmul");
  const AxisSet varying = a.type().varying.joined(b.type().varying);
  const auto widened = [&](const Array& x) {
    Shape shape = batch;
    shape.append(x.dim(-2));
    shape.append(x.dim(-1));
    return x.shape() == shape ? x : broadcast_to(api::varying_along(x, varying), shape);
  };
  const int rank = batch.rank();
  const Axes dims = range(0, rank);
  return dot_general(widened(a), widened(b), {{rank + 1}, {rank}}, {dims, dims});
}

}  // namespace

Array dot_general(const ArrayOperand& a, const ArrayOperand& b, const std::pair<Axes, Axes>& contract,
                  const std::pair<Axes, Axes>& batch) {
  const DType dtype = api::common_dtype({a, b});
  const auto in_dtype = [&](const Array& x) {
    api::check_integer(ops::primitives::dot_general().name, x, dtype);
    return x.dtype() == dtype ? x : convert(x, dtype);
  };
  using Pair = std::vector<std::vector<std::int64_t>>;
  return api::bind_one(ops::primitives::dot_general(), {in_dtype(a), in_dtype(b)},
                       {{"contract", Pair{resolve(contract.first, a.ndim()), resolve(contract.second, b.ndim())}},
                        {"batch", Pair{resolve(batch.first, a.ndim()), resolve(batch.second, b.ndim())}}});
}

Array matmul(const ArrayOperand& a, const ArrayOperand& b) {
  if (a.ndim() == 0 || b.ndim() == 0) {
    throw ShapeError(fmt::format("matmul: needs arrays of rank 1 or more, got {} and {}; scalars multiply by *",
                                 to_string(a.shape()), to_string(b.shape())));
  }
  const int inner = b.ndim() == 1 ? 0 : b.ndim() - 2;
  if (a.dim(-1) != b.shape()[inner]) {
    throw ShapeError(fmt::format("matmul: the last dimension of {} and dimension {} of {} differ: {} and {}",
                                 to_string(a.shape()), inner, to_string(b.shape()), a.dim(-1), b.shape()[inner]));
  }
  if (a.ndim() <= 2 && b.ndim() > 2) {
    const Array product = dot_general(a, b, {{a.ndim() - 1}, {inner}});
    return a.ndim() == 1 ? product : moveaxis(product, 0, -2);
  }
  if (a.ndim() > 2 && b.ndim() > 2) return batched_matmul(a, b);
  return dot_general(a, b, {{a.ndim() - 1}, {inner}});
}

Array one_hot(const ArrayOperand& indices, std::int64_t classes, DType dtype) {
  api::expect_integers("one_hot", indices, "indices");
  if (classes < 0)
    throw ValueError(fmt::format("one_hot: the number of classes must not be negative, got {}", classes));
  // Positions must not wrap: 261 of int8 is 5.
  const Array column = expand_dims(api::in_at_least_32_bits(indices), -1);
  Shape shape = indices.shape();
  shape.append(classes);
  return convert(equal(column, iota(shape, -1, column.dtype())), dtype);
}

}  // namespace lockstep
