#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/vision/augmentation_geometry.h>

#include "engine/vision/augmentation/drawn_geometry.h"
#include "engine/vision/augmentation/draws.h"
#include "engine/vision/augmentation/pixel_colors.h"
#include "engine/vision/augmentation/sampling.h"

namespace lockstep::data {
namespace {

Pixels pixels_to_resample(const HostTable& image, const Resampling& how, const std::string& who) {
  Pixels pixels = pixels_of(image, who);
  check_resampling(pixels, how, who);
  return pixels;
}

/// The eight numbers of the projection that maps the points `to` to `from`: of (x, y) it is ((h0 x + h1 y + h2) / k, (h3
/// x + h4 y + h5) / k), k = h6 x + h7 y + 1.
std::array<double, 8> projection(const Corners& from, const Corners& to, const std::string& who) {
  std::array<std::array<double, 9>, 8> rows{};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto [x, y] = to[i];
    const auto [u, v] = from[i];
    rows[i] = {x, y, 1, 0, 0, 0, -u * x, -u * y, u};
    rows[i + 4] = {0, 0, 0, x, y, 1, -v * x, -v * y, v};
  }
  for (std::size_t k = 0; k < 8; ++k) {
    std::size_t pivot = k;
    for (std::size_t i = k + 1; i < 8; ++i) {
      if (std::abs(rows[i][k]) > std::abs(rows[pivot][k])) pivot = i;
    }
    if (!(std::abs(rows[pivot][k]) > 1e-9)) {
      throw ValueError(
          fmt::format("[{}] three of the four points of the result lie on one line; give the corners of "
                      "a quadrilateral",
                      who));
    }
    std::swap(rows[k], rows[pivot]);
    for (std::size_t i = 0; i < 8; ++i) {
      if (i == k) continue;
      const double factor = rows[i][k] / rows[k][k];
      for (std::size_t j = k; j < 9; ++j) rows[i][j] -= factor * rows[k][j];
    }
  }
  std::array<double, 8> h{};
  for (std::size_t k = 0; k < 8; ++k) h[k] = rows[k][8] / rows[k][k];
  return h;
}

Pixels pixels_projected(const Pixels& pixels, const std::array<double, 8>& h, const Resampling& how) {
  return sampled(pixels, how, [&](std::int64_t column, std::int64_t row) {
    const auto x = static_cast<double>(column), y = static_cast<double>(row);
    const double k = h[6] * x + h[7] * y + 1;
    return Point{(h[0] * x + h[1] * y + h[2]) / k, (h[3] * x + h[4] * y + h[5]) / k};
  });
}

/// One smoothed number for each pixel.
Pixels smooth_noise(const Extents& extents, double sigma, const RowKey& key) {
  Pixels noise{{extents.height, extents.width, 1}, DType::float32, 1, {}};
  for (std::int64_t i = 0; i < extents.height * extents.width; ++i) {
    noise.values.push_back(static_cast<float>(sigma * drawn_normal(key, static_cast<std::uint64_t>(i))));
  }
  const std::int64_t window = static_cast<std::int64_t>(6 * sigma) | 1;
  blur(noise, {window, window, sigma, sigma});
  return noise;
}

Pixels bent(const Pixels& pixels, double alpha, double sigma, const RowKey& key, const Resampling& how) {
  const Pixels across = smooth_noise(pixels.extents, sigma, key.fold_in(0));
  const Pixels down = smooth_noise(pixels.extents, sigma, key.fold_in(1));
  return sampled(pixels, how, [&](std::int64_t x, std::int64_t y) {
    return Point{static_cast<double>(x) + alpha * static_cast<double>(across.values[across.at(y, x, 0)]),
                 static_cast<double>(y) + alpha * static_cast<double>(down.values[down.at(y, x, 0)])};
  });
}

}  // namespace

HostTable affine_transform(const HostTable& image, const std::array<double, 6>& m, const Resampling& how) {
  const Affine affine = checked_affine(m);
  return image_of(affinely(pixels_to_resample(image, how, "affine_transform"), affine, how));
}

HostTable rotate(const HostTable& image, double turn, const Resampling& how) {
  const Pixels pixels = pixels_to_resample(image, how, "rotate");
  return image_of(affinely(pixels, checked_rotation(pixels.extents, turn), how));
}

HostTable random_rotation(const HostTable& image, Range turn, const RowKey& key, const Resampling& how) {
  const Pixels pixels = pixels_to_resample(image, how, "random_rotation");
  return image_of(affinely(pixels, drawn_rotation(pixels.extents, turn, key), how));
}

HostTable zoom(const HostTable& image, double height, double width, const Resampling& how) {
  const Pixels pixels = pixels_to_resample(image, how, "zoom");
  return image_of(affinely(pixels, checked_zoom(pixels.extents, height, width), how));
}

HostTable random_zoom(const HostTable& image, Range height, const RowKey& key, std::optional<Range> width,
                      const Resampling& how) {
  const Pixels pixels = pixels_to_resample(image, how, "random_zoom");
  return image_of(affinely(pixels, drawn_zoom(pixels.extents, height, width, key), how));
}

HostTable shear(const HostTable& image, double horizontal, double vertical, const Resampling& how) {
  const Affine m = checked_shear(horizontal, vertical);
  return image_of(affinely(pixels_to_resample(image, how, "shear"), m, how));
}

HostTable random_shear(const HostTable& image, Range horizontal, Range vertical, const RowKey& key,
                       const Resampling& how) {
  const Affine m = drawn_shear(horizontal, vertical, key);
  return image_of(affinely(pixels_to_resample(image, how, "random_shear"), m, how));
}

HostTable random_translation(const HostTable& image, Range height, Range width, const RowKey& key,
                             const Resampling& how) {
  const Pixels pixels = pixels_to_resample(image, how, "random_translation");
  return image_of(affinely(pixels, drawn_translation(pixels.extents, height, width, key), how));
}

HostTable perspective_transform(const HostTable& image, const Corners& from, const Corners& to, const Resampling& how) {
  const std::string who = "perspective_transform";
  for (const Corners* corners : {&from, &to}) {
    for (const auto& corner : *corners) {
      for (const double number : corner) check_between(number, -farthest, farthest, who, "a number of a point");
    }
  }
  return image_of(pixels_projected(pixels_to_resample(image, how, who), projection(from, to, who), how));
}

HostTable random_perspective(const HostTable& image, double scale, const RowKey& key, double p, const Resampling& how) {
  check_between(scale, 0, 0.9, "random_perspective", "scale");
  const bool is_moved = happens(p, "random_perspective", key, 8);
  const Pixels pixels = pixels_to_resample(image, how, "random_perspective");
  if (!is_moved) return image;
  // A line of pixels has corners too.
  const double right = static_cast<double>(std::max<std::int64_t>(pixels.extents.width - 1, 1));
  const double bottom = static_cast<double>(std::max<std::int64_t>(pixels.extents.height - 1, 1));
  const Corners from = {{{0, 0}, {right, 0}, {0, bottom}, {right, bottom}}};
  Corners to = from;
  for (std::size_t i = 0; i < 4; ++i) {
    to[i][0] += right * drawn({-scale / 2, scale / 2}, key, 2 * i);
    to[i][1] += bottom * drawn({-scale / 2, scale / 2}, key, 2 * i + 1);
  }
  return image_of(pixels_projected(pixels, projection(from, to, "random_perspective"), how));
}

HostTable elastic_transform(const HostTable& image, double alpha, double sigma, const RowKey& key,
                            const Resampling& how) {
  check_between(alpha, 0, farthest, "elastic_transform", "alpha");
  check_between(sigma, 1e-6, 1e4, "elastic_transform", "sigma");
  return image_of(bent(pixels_to_resample(image, how, "elastic_transform"), alpha, sigma, key, how));
}

HostTable random_elastic_transform(const HostTable& image, Range scale, const RowKey& key, double p,
                                   const Resampling& how) {
  check_range(scale, 0, 1, "random_elastic_transform", "scale");
  const bool is_bent = happens(p, "random_elastic_transform", key, 1);
  const Pixels pixels = pixels_to_resample(image, how, "random_elastic_transform");
  const double by = drawn(scale, key, 0);
  const auto [height, width, channels] = pixels.extents;
  const double alpha = 0.1 * by * static_cast<double>(std::max(height, width));
  const double sigma = 0.05 * by * static_cast<double>(std::min(height, width));
  if (!is_bent || sigma < 1e-6) return image;
  Pixels result = bent(pixels, alpha, sigma, key, how);
  hold_to_range(result);
  return image_of(result);
}

}  // namespace lockstep::data
