#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/manipulation.h>

namespace lockstep {

namespace {

Arrays mapped(std::span<const Array> arrays, Array (*f)(const ArrayOperand&)) {
  Arrays result;
  for (const Array& x : arrays) result.push_back(f(x));
  return result;
}

Arrays split_along(std::string_view op, const Array& x, std::int64_t parts, std::int64_t axis) {
  if (x.ndim() > axis) return split(x, parts, axis);
  throw ShapeError(fmt::format("{}: needs an array of rank {} or more, got {}", op, axis + 1, to_string(x.shape())));
}

}  // namespace

Arrays split_at(const ArrayOperand& x, const Axes& positions, std::int64_t axis) {
  const int dim = normalize_axis(axis, x.ndim(), "split_at");
  const std::int64_t extent = x.shape()[dim];
  const auto resolved = [&](std::int64_t at) { return std::clamp<std::int64_t>(at < 0 ? at + extent : at, 0, extent); };
  Arrays pieces;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i <= positions.size(); ++i) {
    const std::int64_t end = i < positions.size() ? resolved(positions[i]) : extent;
    pieces.push_back(slice_in_dim(x, std::min(begin, end), end, dim));
    begin = end;
  }
  return pieces;
}

Arrays unstack(const ArrayOperand& x, std::int64_t axis) {
  const int dim = normalize_axis(axis, x.ndim(), "unstack");
  Arrays slices;
  for (std::int64_t i = 0; i < x.shape()[dim]; ++i) slices.push_back(squeeze(slice_in_dim(x, i, i + 1, dim), {dim}));
  return slices;
}

Arrays array_split(const ArrayOperand& x, std::int64_t parts, std::int64_t axis) {
  if (parts <= 0) throw ValueError(fmt::format("array_split: needs one part or more, got {}", parts));
  const int dim = normalize_axis(axis, x.ndim(), "array_split");
  const std::int64_t extent = x.shape()[dim];
  Axes positions;
  std::int64_t at = 0;
  for (std::int64_t i = 0; i + 1 < parts; ++i) positions.push_back(at += extent / parts + (i < extent % parts ? 1 : 0));
  return split_at(x, positions, dim);
}

Arrays hsplit(const ArrayOperand& x, std::int64_t parts) {
  return split_along("hsplit", x, parts, x.ndim() == 1 ? 0 : 1);
}
Arrays vsplit(const ArrayOperand& x, std::int64_t parts) {
  if (x.ndim() < 2) {
    throw ShapeError(fmt::format("vsplit: needs an array of rank 2 or more, got {}", to_string(x.shape())));
  }
  return split(x, parts, 0);
}
Arrays dsplit(const ArrayOperand& x, std::int64_t parts) { return split_along("dsplit", x, parts, 2); }

Array hstack(const ArrayOperands& arrays) {
  const Arrays joined = mapped(arrays, atleast_1d);
  return concatenate(joined, joined.empty() || joined[0].ndim() == 1 ? 0 : 1);
}

Array vstack(const ArrayOperands& arrays) { return concatenate(mapped(arrays, atleast_2d), 0); }
Array dstack(const ArrayOperands& arrays) { return concatenate(mapped(arrays, atleast_3d), 2); }

Array column_stack(const ArrayOperands& arrays) {
  return concatenate(mapped(arrays,
                            [](const ArrayOperand& x) {
                              return x.ndim() < 2 ? reshape(x, {x.size(), 1}) : Array(x);
                            }),
                     1);
}

Array append(const ArrayOperand& x, const ArrayOperand& values, const std::optional<std::int64_t>& axis) {
  return axis ? concatenate({x, values}, normalize_axis(*axis, x.ndim(), __func__))
              : concatenate({ravel(x), ravel(values)}, 0);
}

}  // namespace lockstep
