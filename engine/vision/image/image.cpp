#include <algorithm>
#include <limits>
#include <numbers>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/indexing.h>
#include <lockstep/manipulation.h>
#include <lockstep/vision/image.h>

#include "engine/api/numpy/axes.h"
#include "engine/api/numpy/operands.h"
#include "engine/core/lists.h"

namespace lockstep::image {

namespace {

Array lanczos(const Array& x, double radius) {
  constexpr double pi = std::numbers::pi;
  const Array wave = radius * sin(pi * x) * sin(pi / radius * x);
  const Array inside = where(x > 1e-3, wave / where(x != 0, pi * pi * square(x), 1), 1);
  return where(x > radius, 0, inside);
}

/// A kernel at distances of 0 or more.
Array kernel(const Array& x, ResizeMethod method) {
  switch (method) {
    case ResizeMethod::cubic: {
      const Array near = ((1.5 * x - 2.5) * x) * x + 1, far = ((-0.5 * x + 2.5) * x - 4) * x + 2;
      return where(x >= 2, 0, where(x >= 1, far, near));
    }
    case ResizeMethod::lanczos3:
      return lanczos(x, 3);
    case ResizeMethod::lanczos5:
      return lanczos(x, 5);
    case ResizeMethod::linear:
    case ResizeMethod::nearest:
      break;
  }
  return maximum(1 - x, 0);
}

/// How much of each of `in` elements is in each of `out` ones: [in, out].
Array weights(std::int64_t in, std::int64_t out, const Array& scale, const Array& translation, ResizeMethod method,
              bool antialias) {
  const DType dtype = scale.dtype();
  const Array step = 1 / scale;
  const Array width = antialias ? maximum(step, 1) : ones({}, dtype);
  const Array place = (arange(out, dtype) + 0.5) * step - translation * step - 0.5;
  const Array distance = abs(expand_dims(place, 0) - expand_dims(arange(in, dtype), 1)) / width;
  const Array weight = kernel(distance, method);
  const Array total = sum(weight, 0, true);
  constexpr double least = 1000.0 * std::numeric_limits<float>::epsilon();
  const Array share = where(abs(total) > least, weight / where(total != 0, total, 1), 0);
  const Array inside = logical_and(place >= -0.5, place <= static_cast<double>(in) - 0.5);
  return where(expand_dims(inside, 0), share, 0);
}

/// Dimension `dim` multiplied by a matrix [in, out].
Array multiplied(const Array& x, std::int64_t dim, const Array& matrix) {
  return moveaxis(dot_general(x, convert(matrix, x.dtype()), {{dim}, {0}}), -1, dim);
}

void expect_rank_of(std::string_view op, const Array& x, const Shape& shape) {
  if (shape.rank() == x.ndim()) return;
  throw ShapeError(fmt::format("{}: the result's shape is {}, x is {}; expected one rank", op, to_string(shape),
                               to_string(x.shape())));
}

Array nearest_along(const Array& x, std::int64_t dim, std::int64_t out) {
  const auto in = static_cast<double>(x.dim(static_cast<int>(dim)));
  const Array place = floor((arange(out, float64) + 0.5) * in / static_cast<double>(std::max<std::int64_t>(out, 1)));
  return take(x, convert(place, int32), dim, IndexMode::clip);
}

}  // namespace

Array resize(const ArrayOperand& x, const Shape& shape, ResizeMethod method, bool antialias) {
  expect_rank_of("image.resize", x, shape);
  const DType dtype = method == ResizeMethod::nearest ? x.dtype() : api::inexact(x.dtype());
  Array result = method == ResizeMethod::nearest ? Array(x) : convert(x, api::widened(x.dtype()));
  const DType wide = result.dtype() == float64 || result.dtype() == complex128 ? float64 : float32;
  for (int d = 0; d < shape.rank(); ++d) {
    const std::int64_t in = x.dim(d), out = shape[d];
    if (in == out) continue;
    if (in == 0) {
      throw ShapeError(fmt::format("image.resize: dimension {} of {} has no element, and is asked for with {}", d,
                                   to_string(x.shape()), out));
    }
    if (method == ResizeMethod::nearest) {
      result = nearest_along(result, d, out);
      continue;
    }
    const double scale = out == 0 ? 1 : static_cast<double>(out) / static_cast<double>(in);
    const Array zero = zeros({}, wide);
    result = multiplied(result, d, weights(in, out, full({}, scale, wide), zero, method, antialias));
  }
  return convert(result, dtype);
}

Array scale_and_translate(const ArrayOperand& x, const Shape& shape, const Axes& dims, const ArrayOperand& scale,
                          const ArrayOperand& translation, ResizeMethod method, bool antialias) {
  const std::string_view op = "image.scale_and_translate";
  expect_rank_of(op, x, shape);
  if (method == ResizeMethod::nearest) {
    throw ValueError(fmt::format("{}: there is no method nearest; expected linear, cubic, lanczos3 or lanczos5", op));
  }
  const Shape expected{static_cast<std::int64_t>(dims.size())};
  if (scale.shape() != expected || translation.shape() != expected) {
    throw ShapeError(fmt::format("{}: scale is {}, translation {}; expected {} each, a number for each of the dims", op,
                                 to_string(scale.shape()), to_string(translation.shape()), to_string(expected)));
  }
  const DType wide = api::widened(promote(scale.dtype(), translation.dtype()));
  const Array scales = convert(scale, wide), translations = convert(translation, wide);
  Array result = convert(x, api::widened(x.dtype()));
  std::vector<bool> named(static_cast<std::size_t>(x.ndim()), false);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const int d = normalize_axis(dims[i], x.ndim(), op);
    nth(named, d) = true;
    const auto k = static_cast<std::int64_t>(i);
    result = multiplied(result, d, weights(x.dim(d), shape[d], scales[k], translations[k], method, antialias));
  }
  for (int d = 0; d < shape.rank(); ++d) {
    if (named[static_cast<std::size_t>(d)] || shape[d] == x.dim(d)) continue;
    throw ShapeError(fmt::format("{}: dimension {} of {} is asked for with {} elements; name it in dims", op, d,
                                 to_string(x.shape()), shape[d]));
  }
  return convert(result, api::inexact(x.dtype()));
}

}  // namespace lockstep::image
