#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/elementwise.h>
#include <lockstep/error.h>
#include <lockstep/linalg.h>
#include <lockstep/manipulation.h>
#include <lockstep/random.h>
#include <lockstep/vision/image.h>
#include <lockstep/vision/image_filters.h>

#include "engine/api/numpy/operands.h"
#include "engine/vision/image/samples.h"

namespace lockstep::image {

namespace {

void check_images(std::string_view op, const Array& x) {
  if ((x.ndim() == 3 || x.ndim() == 4) && x.dim(-2) > 0 && x.dim(-3) > 0) return;
  throw ShapeError(
      fmt::format("{}: x is {}; expected images [H, W, C] or [N, H, W, C] with a pixel", op, to_string(x.type())));
}

/// Of an image, or of each of a batch: the trailing shape is what an image's numbers have.
Array numbers_for(std::string_view op, std::string_view what, const Array& x, const Array& given, const Shape& one) {
  const int more = given.ndim() - one.rank();
  const bool fits = more == 0 || (more == 1 && x.ndim() == 4 && given.dim(0) == x.dim(0));
  if (fits && Shape(std::vector<std::int64_t>(given.shape().begin() + more, given.shape().end())) == one) {
    return convert(given, api::inexact(given.dtype()));
  }
  throw ShapeError(fmt::format("{}: {} is {} for {}; expected {}, or that for each image of a batch", op, what,
                               to_string(given.type()), to_string(x.type()), to_string(one)));
}

/// Places of all pixels: x along the last dimension, y along the one before.
struct Grid {
  Array x, y;
};
Grid grid_of(const Array& x, DType dtype) {
  const Shape places{x.dim(-3), x.dim(-2)};
  return {broadcast_to(expand_dims(arange(places[1], dtype), 0), places),
          broadcast_to(expand_dims(arange(places[0], dtype), 1), places)};
}

/// Images at places [H, W], or [N, H, W].
Array sampled_at(std::string_view op, const Array& x, const Array& across, const Array& down,
                 const MapOptions& options) {
  if (x.ndim() == 3) return samples(op, x, {down, across}, false, options);
  const Shape places{x.dim(0), x.dim(1), x.dim(2)};
  return samples(op, x, {broadcast_to(down, places), broadcast_to(across, places)}, true, options);
}

/// By 6 or 8 numbers in the last dimension.
Array images_projected(std::string_view op, const Array& x, const Array& transform, const MapOptions& options) {
  const auto number = [&](std::int64_t i) { return slice_in_dim(transform, i, i + 1, -1); };
  const auto of = [&](std::int64_t i) { return transform.ndim() == 1 ? number(i) : expand_dims(number(i), 2); };
  const auto [column, row] = grid_of(x, transform.dtype());
  const auto line = [&](std::int64_t i) { return of(i) * column + of(i + 1) * row + of(i + 2); };
  if (transform.dim(-1) == 6) return sampled_at(op, x, line(0), line(3), options);
  const Array k = of(6) * column + of(7) * row + 1;
  return sampled_at(op, x, line(0) / k, line(3) / k, options);
}

/// Rows of the equations for the eight numbers, of points and one of the coordinates that they come from.
Array equations(const Array& x, const Array& y, const Array& source, bool second) {
  const Array none = zeros_like(x), one = ones_like(x);
  const Arrays own = {x, y, one}, others = {none, none, none};
  Arrays row = second ? others : own;
  const Arrays& rest = second ? own : others;
  row.insert(row.end(), rest.begin(), rest.end());
  row.push_back(-source * x);
  row.push_back(-source * y);
  return stack(row, -1);
}

}  // namespace

Array affine_transform(const ArrayOperand& x, const ArrayOperand& transform, const MapOptions& options) {
  const std::string_view op = "image.affine_transform";
  check_images(op, x);
  const std::int64_t count = transform.ndim() > 0 && transform.dim(-1) == 6 ? 6 : 8;
  return images_projected(op, x, numbers_for(op, "transform", x, transform, {count}), options);
}

Array perspective_transform(const ArrayOperand& x, const ArrayOperand& from, const ArrayOperand& to,
                            const MapOptions& options) {
  const std::string_view op = "image.perspective_transform";
  check_images(op, x);
  const Array source = numbers_for(op, "from", x, from, {4, 2}), target = numbers_for(op, "to", x, to, {4, 2});
  const DType dtype = promote(source.dtype(), target.dtype());
  const auto coordinate = [&](const Array& points, std::int64_t i) {
    const Array wide = points.ndim() < std::max(source.ndim(), target.ndim()) ? expand_dims(points, 0) : points;
    return convert(squeeze(slice_in_dim(wide, i, i + 1, -1), Axes{-1}), dtype);
  };
  const Arrays of_target =
      broadcast_arrays({coordinate(target, 0), coordinate(target, 1), coordinate(source, 0), coordinate(source, 1)});
  const Array &px = of_target[0], &py = of_target[1], &u = of_target[2], &v = of_target[3];
  const Array matrix = concatenate({equations(px, py, u, false), equations(px, py, v, true)}, -2);
  const Array right = expand_dims(concatenate({u, v}, -1), -1);
  return images_projected(op, x, squeeze(linalg::solve(matrix, right), Axes{-1}), options);
}

Array elastic_transform(const ArrayOperand& key, const ArrayOperand& x, const Operand& alpha, double sigma,
                        const MapOptions& options) {
  const std::string_view op = "image.elastic_transform";
  check_images(op, x);
  if (!(sigma > 0 && sigma <= 1e4)) {
    throw ValueError(fmt::format("{}: sigma is {}; expected a number above 0, and 10,000 at the most", op, sigma));
  }
  const DType dtype = x.dtype() == float64 ? float64 : float32;
  const Shape shape = x.shape().with(x.ndim() - 1, 1);
  const std::int64_t window = static_cast<std::int64_t>(6 * sigma) | 1;
  const Array both = random::split(key);
  const auto moved = [&](std::int64_t direction, const Array& place) {
    const Array noise = random::normal(both[direction], shape, dtype) * sigma;
    const Array smooth = gaussian_blur(noise, {window, window}, sigma, sigma);
    return place + convert(alpha * squeeze(smooth, Axes{-1}), dtype);
  };
  const auto [column, row] = grid_of(x, dtype);
  return sampled_at(op, x, moved(0, column), moved(1, row), options);
}

}  // namespace lockstep::image
