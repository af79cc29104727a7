#include "engine/api/numpy/axes.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/error.h>

#include "engine/api/numpy/operands.h"
#include "engine/api/transforms/bind.h"
#include "engine/ops/primitives.h"

namespace lockstep {

OptionalAxes::OptionalAxes() = default;
OptionalAxes::OptionalAxes(const OptionalAxes& other) = default;
OptionalAxes::OptionalAxes(OptionalAxes&& other) noexcept = default;
OptionalAxes& OptionalAxes::operator=(const OptionalAxes& other) = default;
OptionalAxes& OptionalAxes::operator=(OptionalAxes&& other) noexcept = default;
OptionalAxes::~OptionalAxes() = default;
OptionalAxes::OptionalAxes(std::nullopt_t) {}
OptionalAxes::OptionalAxes(std::optional<Axes> axes) : std::optional<Axes>(std::move(axes)) {}
OptionalAxes::OptionalAxes(Axes axes) : std::optional<Axes>(std::move(axes)) {}
OptionalAxes::OptionalAxes(std::initializer_list<std::int64_t> axes) : std::optional<Axes>(Axes(axes)) {}
OptionalAxes::OptionalAxes(std::int64_t axis, One /*one*/) : std::optional<Axes>(Axes{axis}) {}

const std::pair<Axes, Axes> detail::no_batch;

namespace api {

Axes resolve_axes(const OptionalAxes& axes, int rank, std::string_view op) {
  Axes resolved;
  if (!axes) {
    for (int i = 0; i < rank; ++i) resolved.push_back(i);
    return resolved;
  }
  for (const std::int64_t axis : *axes) resolved.push_back(normalize_axis(axis, rank, op));
  std::sort(resolved.begin(), resolved.end());
  if (std::adjacent_find(resolved.begin(), resolved.end()) != resolved.end()) {
    throw ShapeError(fmt::format("{}: axes [{}] name a dimension twice", op, fmt::join(*axes, ",")));
  }
  return resolved;
}

Array reduce(const ir::Primitive& primitive, const Array& x, const Axes& axes, bool keep) {
  const Array result = axes.empty() ? x : bind_one(primitive, {x}, {{"axes", axes}});
  if (!keep) return result;
  Shape shape = x.shape();
  for (const std::int64_t axis : axes) shape = shape.with(static_cast<int>(axis), 1);
  return reshape(result, shape.to_vector());
}

DType accumulated(DType dtype) {
  if (dtype == DType::bool_ || dtype == DType::int8 || dtype == DType::int16) return DType::int32;
  if (dtype == DType::uint8 || dtype == DType::uint16) return DType::uint32;
  return dtype;
}

DType widened(DType dtype) {
  const DType real = inexact(dtype);
  return is_narrow_float(real) ? DType::float32 : real;
}

Array as_widened(const Array& x) { return convert(x, widened(x.dtype())); }

Array centered(const Array& x, const Axes& axes) {
  const auto count = static_cast<double>(count_along(x, axes));
  const double part = std::exp2(-std::ceil(std::log2(std::max(count, 1.0))));  // a power of two, which rounds nothing
  const auto sum = [&](const Array& v) { return reduce(ops::primitives::reduce_sum(), v, axes, true); };
  const Array away = x - stop_gradient(sum(x * part) / (count * part));
  return away - sum(away) / count;
}

Array deviation(const Array& variance) {
  const Array none = equal(variance, 0);
  return where(none, 0, sqrt(where(none, 1, variance)));
}

Array binade(const Array& magnitudes, const Axes& axes) {
  const bool is_double = magnitudes.dtype() == float64;
  const Array top = stop_gradient(largest(magnitudes, axes, true));
  const Array exponent = bitcast_convert(top, is_double ? uint64 : uint32) &
                         static_cast<std::int64_t>(is_double ? 0x7ff0000000000000 : 0x7f800000);
  const Array power = maximum(bitcast_convert(exponent, magnitudes.dtype()), is_double ? 0x1p-1022 : 0x1p-126);
  return where(is_finite(top) & greater(top, 0), power, 1);
}

Array largest(const Array& x, const Axes& axes, bool keep) {
  return reduce(ops::primitives::reduce_max(), x, axes, keep);
}
Array smallest(const Array& x, const Axes& axes, bool keep) {
  return reduce(ops::primitives::reduce_min(), x, axes, keep);
}

void expect_elements(std::string_view op, const Array& x, const Axes& axes) {
  if (count_along(x, axes) > 0) return;
  bool has_results = true;
  for (int i = 0; i < x.ndim(); ++i) {
    has_results = has_results && (x.dim(i) > 0 || std::find(axes.begin(), axes.end(), i) != axes.end());
  }
  if (!has_results) return;
  throw ShapeError(
      fmt::format("{}: {} has no elements along the axes [{}], and nothing has no {} element; give an array that has "
                  "some, or a value "
                  "for none as {}(x, Where(mask), initial)",
                  op, to_string(x.type()), fmt::join(axes, ","), op.ends_with("min") ? "smallest" : "largest", op));
}

std::int64_t count_along(const Array& x, const Axes& axes) {
  std::int64_t n = 1;
  for (const std::int64_t axis : axes) n *= x.shape()[static_cast<int>(axis)];
  return n;
}

}  // namespace api
}  // namespace lockstep
