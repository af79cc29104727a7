#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/indexing.h>

#include "engine/api/indexing/index_plan.h"
#include "engine/api/indexing/index_values.h"
#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/core/lists.h"
#include "engine/ops/primitives.h"

namespace lockstep {

namespace api {

void expect_integers(std::string_view op, const Array& x, std::string_view what) {
  if (is_integer(x.dtype())) return;
  throw DtypeError(fmt::format("{}: {} must be integers, got {}; convert them by convert({}, int32)", op, what,
                               to_string(x.type()), what == "indices" ? what : "x"));
}

void expect_indices(std::string_view op, const Array& indices) {
  if (indices.dtype() != bool_) return expect_integers(op, indices, "indices");
  throw DtypeError(
      fmt::format("{}: indices must be integers, got {}; no shape may depend on data, so instead of reading or writing "
                  "at a mask choose by where(mask, a, b)",
                  op, to_string(indices.type())));
}

Array from_the_end(const Array& indices, std::int64_t extent) {
  const bool narrow = size_of(indices.dtype()) < 4 || indices.dtype() == int32;
  const DType dtype = narrow && extent <= std::numeric_limits<std::int32_t>::max() ? int32 : int64;
  if (is_unsigned_integer(indices.dtype())) {
    // What int64 cannot hold is outside in any case.
    const bool wide = indices.dtype() == uint64;
    return convert(wide ? minimum(indices, std::numeric_limits<std::int64_t>::max()) : indices, dtype);
  }
  const Array wide = convert(indices, dtype);
  return where(less(wide, 0), wide + extent, wide);
}

Array in_at_least_32_bits(const Array& integers) {
  return size_of(integers.dtype()) < 4 ? convert(integers, int32) : integers;
}

Array clip_integers(const Array& integers, std::int64_t low, std::int64_t high) {
  if (is_unsigned_integer(integers.dtype())) return minimum(integers, std::max<std::int64_t>(high, 0));
  return clip(integers, low, high);
}

Array in_bounds(const Array& indices, std::int64_t extent) {
  return bitwise_and(greater_equal(indices, 0), less(indices, extent));
}

std::vector<Array> starts_of(const Array& x, std::span<const Array> start) {
  std::vector<Array> resolved(start.begin(), start.end());
  for (std::size_t i = 0; i < std::min(start.size(), static_cast<std::size_t>(x.ndim())); ++i) {
    if (is_signed_integer(start[i].dtype())) resolved[i] = from_the_end(start[i], x.dim(static_cast<int>(i)));
  }
  return resolved;
}

}  // namespace api

namespace {

/// Rows of x at indices that do not count from the end.
Array rows_at(const Array& x, const Array& indices, IndexMode mode, const std::optional<Operand>& fill) {
  const Array rows = api::bind_one(ops::primitives::gather_rows(), {x, indices});
  if (mode != IndexMode::fill) return rows;
  Axes shape = repeated(rows.ndim(), 1);
  std::ranges::copy(indices.shape(), shape.begin());
  return api::filled_outside(reshape(api::in_bounds(indices, x.dim(0)), shape), rows, fill);
}

/// x's elements along `dim` at indices that are ready for gather.
Array taken_along(const Array& x, const Array& indices, int dim, IndexMode mode, const std::optional<Operand>& fill) {
  if (dim == 0) return rows_at(x, indices, mode, fill);
  GatherDims dims{{}, {dim}, {dim}};
  for (std::int64_t d = 0; d < x.ndim() - 1; ++d) dims.offset_dims.push_back(d < dim ? d : d + indices.ndim());
  return gather(x, expand_dims(indices, -1), dims, x.shape().with(dim, 1).to_vector(), mode, fill);
}

/// One start per dimension, negative ones counted from the end.
std::vector<Array> starts(const Array& x, const Array& start, int dim, std::string_view op) {
  api::expect_indices(op, start);
  if (start.ndim() != 0) {
    throw ShapeError(fmt::format("{}: the start must be a scalar, got {}", op, to_string(start.type())));
  }
  std::vector<Array> all = repeated<Array>(x.ndim(), zeros({}, start.dtype()));
  nth(all, dim) = start;
  return all;
}

}  // namespace

Array take(const ArrayOperand& x, const ArrayOperand& indices, const std::optional<std::int64_t>& axis, IndexMode mode,
           const std::optional<Operand>& fill) {
  api::expect_indices("take", indices);
  const Array source = axis ? Array(x) : reshape(x, {x.size()});
  const int dim = axis ? normalize_axis(*axis, x.ndim(), "take") : 0;
  const std::int64_t extent = source.shape()[dim];
  if (mode == IndexMode::wrap) {
    const Array wide = convert(indices, int64);
    const Array remainder = rem(wide, std::max<std::int64_t>(extent, 1));
    return taken_along(source, where(less(remainder, 0), remainder + extent, remainder), dim,
                       IndexMode::promise_in_bounds, fill);
  }
  const Array places = mode == IndexMode::fill ? api::from_the_end(indices, extent) : Array(indices);
  return taken_along(source, places, dim, mode, fill);
}

Array take_rows(const ArrayOperand& table, const ArrayOperand& indices) {
  if (table.ndim() == 0) throw ShapeError("take_rows: the table has rank 0; give one with rows, [N, ...]");
  return take(table, indices, 0);
}

Array take_along_axis(const ArrayOperand& x, const ArrayOperand& indices, std::int64_t axis) {
  return take_along_axis(x, indices, axis, IndexMode::fill);
}

Array take_along_axis(const ArrayOperand& x, const ArrayOperand& indices, std::int64_t axis, IndexMode mode,
                      const std::optional<Operand>& fill) {
  api::expect_indices(__func__, indices);
  api::mode_text(__func__, mode);
  const int dim = normalize_axis(axis, x.ndim(), __func__);
  const bool promised = mode == IndexMode::promise_in_bounds;
  const Array places = promised ? Array(indices) : api::from_the_end(indices, x.dim(dim));
  const Array elements = api::bind_one(ops::primitives::take_along_axis(), {x, places}, {{"axis", std::int64_t{dim}}});
  if (mode != IndexMode::fill) return elements;
  return api::filled_outside(api::in_bounds(places, x.dim(dim)), elements, fill);
}

Array put_along_axis(const ArrayOperand& x, const ArrayOperand& indices, const Operand& values, std::int64_t axis) {
  api::expect_indices("put_along_axis", indices);
  const int dim = normalize_axis(axis, x.ndim(), "put_along_axis");
  if (indices.ndim() != x.ndim()) {
    throw ShapeError(fmt::format("put_along_axis: indices {} and x {} must have one rank", to_string(indices.shape()),
                                 to_string(x.shape())));
  }
  const Shape shape = x.shape().with(dim, indices.shape()[dim]);
  const Array places = api::broadcast("put_along_axis", api::from_the_end(indices, x.shape()[dim]), shape);
  ScatterDims dims{{}, {dim}, {dim}};
  for (int d = 0; d < x.ndim(); ++d) {
    if (d == dim) continue;
    dims.operand_batching_dims.push_back(d);
    dims.scatter_indices_batching_dims.push_back(d);
  }
  return scatter(x, expand_dims(places, -1), api::at("put_along_axis", values, x.dtype(), shape), dims);
}

Array dynamic_slice_in_dim(const ArrayOperand& x, const ArrayOperand& start, std::int64_t size, std::int64_t axis) {
  const int dim = normalize_axis(axis, x.ndim(), "dynamic_slice_in_dim");
  return dynamic_slice(x, starts(x, start, dim, "dynamic_slice_in_dim"), x.shape().with(dim, size).to_vector());
}

Array dynamic_index_in_dim(const ArrayOperand& x, const ArrayOperand& index, std::int64_t axis, bool keep) {
  const Array slice = dynamic_slice_in_dim(x, index, 1, axis);
  return keep ? slice : squeeze(slice, {axis});
}

Array dynamic_update_slice(const ArrayOperand& x, const Operand& update, const ArrayOperands& start) {
  if (update.is_scalar()) {
    throw ShapeError("dynamic_update_slice: the update must be an array of x's rank; use full(shape, value)");
  }
  const DType of_update = update.array().dtype();
  if (api::keeps_a_part(of_update, x.dtype()) || (x.dtype() == bool_ && of_update != bool_)) {
    throw DtypeError(fmt::format(
        "dynamic_update_slice: x is {}, the update {}, of which {} holds a part alone; convert the update, or x",
        to_string(x.type()), to_string(update.array().type()), name(x.dtype())));
  }
  std::vector<Array> operands = {x, convert(update.array(), x.dtype())};
  std::ranges::copy(api::starts_of(x, start), std::back_inserter(operands));
  return api::bind(ops::primitives::dynamic_update_slice(), operands).front();
}

Array dynamic_update_slice_in_dim(const ArrayOperand& x, const Operand& update, const ArrayOperand& start,
                                  std::int64_t axis) {
  const int dim = normalize_axis(axis, x.ndim(), "dynamic_update_slice_in_dim");
  return dynamic_update_slice(x, update, starts(x, start, dim, "dynamic_update_slice_in_dim"));
}

Array dynamic_update_index_in_dim(const ArrayOperand& x, const ArrayOperand& update, const ArrayOperand& index,
                                  std::int64_t axis) {
  const Array row = update.ndim() == x.ndim() ? Array(update) : expand_dims(update, axis);
  return dynamic_update_slice_in_dim(x, row, index, axis);
}

// ---- numpy's indexing ------------------------------------------------------------------------------------------------

namespace {

using Write = Array (*)(const ArrayOperand&, const ArrayOperand&, const ArrayOperand&, const ScatterDims&, IndexMode);

Array written(std::string_view op, const Array& x, const std::vector<Index>& indices, const Operand& values,
              IndexMode mode, Write write) {
  const api::IndexPlan plan(op, x, indices);
  const Shape shape = plan.result_shape();
  if (!values.is_scalar() &&
      (values.array().ndim() > shape.rank() || broadcast_shapes(values.array().shape(), shape, op) != shape)) {
    throw ShapeError(fmt::format("{}: values of shape {} do not broadcast to {}, the shape of what is indexed", op,
                                 to_string(values.array().shape()), to_string(shape)));
  }
  const Array updates = reshape(api::at(op, values, x.dtype(), shape), plan.windows_shape().to_vector());
  return write(x, plan.indices(), updates, plan.scatter_dims(), mode);
}

}  // namespace

const std::optional<Operand> detail::no_fill;

Index::Index(const Index& other) = default;
Index::Index(Index&& other) noexcept = default;
Index& Index::operator=(const Index& other) = default;
Index& Index::operator=(Index&& other) noexcept = default;
Index::~Index() = default;
Index::Index(const Slice& slice) : kind_(Kind::slice), slice_(slice) {}
Index::Index(NewAxis /*axis*/) : kind_(Kind::newaxis) {}
Index::Index(Ellipsis /*all*/) : kind_(Kind::ellipsis) {}
Index::Index(const Array& indices) : kind_(Kind::array), array_(indices) {}
Index::Index(std::int64_t value, Integer /*integer*/) : kind_(Kind::integer), integer_(value) {}

std::variant<std::int64_t, Slice, NewAxis, Ellipsis, Array> Index::value() const {
  switch (kind_) {
    case Kind::slice:
      return slice_;
    case Kind::newaxis:
      return newaxis;
    case Kind::ellipsis:
      return ellipsis;
    case Kind::array:
      return array_;
    case Kind::integer:
      break;
  }
  return integer_;
}

Place::Place(const Place& other) = default;
Place::Place(Place&& other) noexcept = default;
Place& Place::operator=(const Place& other) = default;
Place& Place::operator=(Place&& other) noexcept = default;
Place::~Place() = default;
Place::Place(Array x, std::vector<Index> indices) : x_(std::move(x)), indices_(std::move(indices)) {}
Place::Place(const Array& x, std::initializer_list<Index> indices) : x_(x), indices_(indices) {}

Array index(const ArrayOperand& x, const std::vector<Index>& indices) { return Place(x, indices).get(); }

Array Place::get(IndexMode mode, const std::optional<Operand>& fill) const {
  const api::IndexPlan plan("index", x_, indices_);
  if (plan.is_basic()) return plan.view();
  const Array windows = gather(x_, plan.indices(), plan.gather_dims(), plan.slice_sizes(), mode, fill);
  return reshape(windows, plan.result_shape().to_vector());
}

Array Place::set(const Operand& values, IndexMode mode) const {
  return written("at().set", x_, indices_, values, mode, scatter);
}
Array Place::add(const Operand& values, IndexMode mode) const {
  return written("at().add", x_, indices_, values, mode, scatter_add);
}
Array Place::subtract(const Operand& values, IndexMode mode) const {
  if (x_.dtype() == DType::bool_) {
    throw DtypeError(fmt::format("at().subtract given {}; expected numbers; convert it, or set() its elements",
                                 to_string(x_.type())));
  }
  return add(neg(values.is_scalar() ? full({}, values, x_.dtype()) : convert(values.array(), x_.dtype())), mode);
}
Array Place::multiply(const Operand& values, IndexMode mode) const {
  return written("at().multiply", x_, indices_, values, mode, scatter_mul);
}
Array Place::divide(const Operand& values, IndexMode mode) const {
  const Array factors = written("at().divide", ones_like(x_), indices_, values, mode, scatter_mul);
  return div(x_, factors);
}
Array Place::min(const Operand& values, IndexMode mode) const {
  return written("at().min", x_, indices_, values, mode, scatter_min);
}
Array Place::max(const Operand& values, IndexMode mode) const {
  return written("at().max", x_, indices_, values, mode, scatter_max);
}

}  // namespace lockstep
