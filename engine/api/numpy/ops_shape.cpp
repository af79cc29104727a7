#include <algorithm>
#include <iterator>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace {

Axes identity_permutation(int rank) {
  Axes axes = repeated(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Array permuted(const Array& x, Axes permutation) {
  if (std::is_sorted(permutation.begin(), permutation.end())) return x;
  return api::bind_one(ops::primitives::transpose(), {x}, {{"permutation", std::move(permutation)}});
}

void check_one_per_dimension(std::string_view op, std::string_view what, std::size_t count, const Array& x) {
  if (count != static_cast<std::size_t>(x.ndim())) {
    throw ShapeError(fmt::format("{}: {} has {} entries for an array of shape {}; give one per dimension", op, what,
                                 count, to_string(x.shape())));
  }
}

/// Arrays of one dtype, for joining.
std::vector<Array> promoted(std::string_view op, std::span<const Array> arrays) {
  if (arrays.empty()) throw ValueError(fmt::format("{}: no arrays given; it needs at least one", op));
  const DType dtype = api::common_dtype(arrays);
  std::vector<Array> converted;
  for (const Array& array : arrays) converted.push_back(convert(array, dtype));
  return converted;
}

}  // namespace

Array reshape(const ArrayOperand& x, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> dims = shape;
  std::int64_t known = 1;
  int unknown = -1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != -1) {
      known *= dims[i];
      continue;
    }
    if (unknown >= 0)
      throw ShapeError(fmt::format("reshape: only one extent may be -1, got [{}]", fmt::join(shape, ",")));
    unknown = static_cast<int>(i);
  }
  if (unknown >= 0) {
    if (known <= 0 || x.size() % known != 0) {
      throw ShapeError(
          fmt::format("reshape: {} has {} elements, which [{}] cannot hold; the product of the other extents "
                      "must divide them",
                      to_string(x.shape()), x.size(), fmt::join(shape, ",")));
    }
    nth(dims, unknown) = x.size() / known;
  }
  if (x.shape() == Shape(dims)) return x;
  return api::bind_one(ops::primitives::reshape(), {x}, {{"shape", std::move(dims)}});
}

Array transpose(const ArrayOperand& x, const Axes& permutation) {
  check_one_per_dimension(__func__, "permutation", permutation.size(), x);
  Axes axes;
  for (const std::int64_t axis : permutation) axes.push_back(normalize_axis(axis, x.ndim(), __func__));
  Axes sorted = axes;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != identity_permutation(x.ndim())) {
    throw ShapeError(fmt::format("transpose: [{}] is no permutation of the {} dimensions of {}",
                                 fmt::join(permutation, ","), x.ndim(), to_string(x.shape())));
  }
  return permuted(x, std::move(axes));
}

Array transpose(const ArrayOperand& x) {
  Axes axes = identity_permutation(x.ndim());
  std::reverse(axes.begin(), axes.end());
  return permuted(x, std::move(axes));
}

Array moveaxis(const ArrayOperand& x, std::int64_t from, std::int64_t to) {
  const int source = normalize_axis(from, x.ndim(), "moveaxis");
  const int target = normalize_axis(to, x.ndim(), "moveaxis");
  Axes axes = identity_permutation(x.ndim());
  axes.erase(axes.begin() + source);
  axes.insert(axes.begin() + target, source);
  return permuted(x, std::move(axes));
}

Array swapaxes(const ArrayOperand& x, std::int64_t a, std::int64_t b) {
  Axes axes = identity_permutation(x.ndim());
  std::swap(nth(axes, normalize_axis(a, x.ndim(), "swapaxes")), nth(axes, normalize_axis(b, x.ndim(), "swapaxes")));
  return permuted(x, std::move(axes));
}

Array expand_dims(const ArrayOperand& x, std::int64_t axis) {
  return reshape(x, x.shape().insert(normalize_axis(axis, x.ndim() + 1, "expand_dims"), 1).to_vector());
}

Array squeeze(const ArrayOperand& x, const Axes& axes) {
  std::vector<bool> dropped = repeated<bool>(x.ndim());
  for (const std::int64_t axis : axes) {
    const int dim = normalize_axis(axis, x.ndim(), "squeeze");
    if (x.shape()[dim] != 1) {
      throw ShapeError(fmt::format("squeeze: axis {} of {} has extent {}, only extents of 1 can be dropped", axis,
                                   to_string(x.shape()), x.shape()[dim]));
    }
    if (nth(dropped, dim)) {
      throw ShapeError(fmt::format("squeeze: axes [{}] name a dimension twice", fmt::join(axes, ",")));
    }
    nth(dropped, dim) = true;
  }
  std::vector<std::int64_t> shape;
  for (int i = 0; i < x.ndim(); ++i) {
    if (!nth(dropped, i)) shape.push_back(x.shape()[i]);
  }
  return reshape(x, shape);
}

Array flatten(const ArrayOperand& x) {
  if (x.ndim() == 0) throw ShapeError("flatten: needs an array with a batch dimension, got a scalar");
  return reshape(x, {x.dim(0), x.dim(0) == 0 ? x.shape().with(0, 1).size() : x.size() / x.dim(0)});
}

Array broadcast_to(const ArrayOperand& x, const Shape& shape) { return api::broadcast("broadcast_to", x, shape); }

Array concatenate(const ArrayOperands& arrays, std::int64_t axis) {
  const std::vector<Array> operands = promoted(__func__, arrays);
  if (operands[0].ndim() == 0) throw ShapeError("concatenate: scalars have no axis to join along; use stack");
  const std::int64_t dim = normalize_axis(axis, operands[0].ndim(), __func__);
  if (operands.size() == 1) return operands[0];
  return std::move(api::bind(ops::primitives::concatenate(), operands, {{"dim", dim}}).front());
}

Array stack(const ArrayOperands& arrays, std::int64_t axis) {
  std::vector<Array> rows;
  if (!arrays.empty()) axis = normalize_axis(axis, arrays[0].ndim() + 1, __func__);
  for (const Array& array : arrays) {
    if (!(array.shape() == arrays[0].shape())) {
      throw ShapeError(fmt::format("stack: all arrays must have one shape, got {} and {}", to_string(arrays[0].shape()),
                                   to_string(array.shape())));
    }
    rows.push_back(expand_dims(array, axis));
  }
  if (rows.empty()) throw ValueError("stack: no arrays given; it needs at least one");
  return concatenate(rows, axis);
}

std::vector<Array> split(const ArrayOperand& x, std::int64_t parts, std::int64_t axis) {
  const int dim = normalize_axis(axis, x.ndim(), __func__);
  if (parts <= 0 || x.shape()[dim] % parts != 0) {
    throw ShapeError(fmt::format("split: {} parts do not divide axis {} of {}", parts, axis, to_string(x.shape())));
  }
  if (parts == 1) return {x};
  const Axes sizes = repeated(parts, x.shape()[dim] / parts);
  return api::bind(ops::primitives::split(), {{x}}, {{"dim", std::int64_t{dim}}, {"sizes", sizes}});
}

Array slice(const ArrayOperand& x, const Axes& start, const Axes& limit, const Axes& strides) {
  check_one_per_dimension(__func__, "start", start.size(), x);
  check_one_per_dimension(__func__, "limit", limit.size(), x);
  const Axes steps = strides.empty() ? Axes(start.size(), 1) : strides;
  check_one_per_dimension(__func__, "strides", steps.size(), x);
  return api::bind_one(ops::primitives::slice(), {x}, {{"start", start}, {"limit", limit}, {"strides", steps}});
}

Array slice_in_dim(const ArrayOperand& x, std::int64_t start, std::int64_t limit, std::int64_t axis) {
  const int dim = normalize_axis(axis, x.ndim(), "slice_in_dim");
  Axes first = repeated(x.ndim());
  Axes last = x.shape().to_vector();
  nth(first, dim) = start;
  nth(last, dim) = limit;
  return slice(x, first, last);
}

Array dynamic_slice(const ArrayOperand& x, const ArrayOperands& start, const Axes& sizes) {
  check_one_per_dimension(__func__, "start", start.size(), x);
  check_one_per_dimension(__func__, "sizes", sizes.size(), x);
  std::vector<Array> operands = {x};
  std::ranges::copy(api::starts_of(x, start), std::back_inserter(operands));
  return std::move(api::bind(ops::primitives::dynamic_slice(), operands, {{"sizes", sizes}}).front());
}

Array pad(const ArrayOperand& x, const Operand& value, const Axes& low, const Axes& high) {
  check_one_per_dimension(__func__, "low", low.size(), x);
  check_one_per_dimension(__func__, "high", high.size(), x);
  return api::bind_one(ops::primitives::pad(), {x, api::at(__func__, value, x.dtype(), Shape{})},
                       {{"low", low}, {"high", high}, {"interior", Axes(low.size(), 0)}});
}

Array reverse(const ArrayOperand& x, const Axes& axes) {
  Axes dims;
  for (const std::int64_t axis : axes) dims.push_back(normalize_axis(axis, x.ndim(), __func__));
  std::sort(dims.begin(), dims.end());
  return api::bind_one(ops::primitives::reverse(), {x}, {{"dims", std::move(dims)}});
}

}  // namespace lockstep
