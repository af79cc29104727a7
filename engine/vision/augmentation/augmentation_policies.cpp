#include <algorithm>
#include <string>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/vision/augmentation_policies.h>

#include "engine/vision/augmentation/draws.h"
#include "engine/vision/augmentation/pixel_colors.h"
#include "engine/vision/augmentation/sampling.h"

namespace lockstep::data {
namespace {

constexpr int changes_without_colours = 7;
constexpr int all_changes = 11;

/// The change of that number, by what it draws up to the magnitude m.
void change(Pixels& pixels, int which, double m, const RowKey& key) {
  const double one = drawn({0, m}, key, 0), other = drawn({0, m}, key, 1), side = key.uniform(2) > 0.5 ? -1 : 1;
  const double both = drawn({-m, m}, key, 3), other_both = drawn({-m, m}, key, 4);
  switch (which) {
    case 0:
      pixels = affinely(pixels, shearing(side * one, side * other), {});
      return;
    case 1:
      pixels = affinely(pixels, translation(pixels.extents, both, other_both), {});
      return;
    case 2:
      pixels = affinely(pixels, rotation(pixels.extents, both), {});
      return;
    case 3: {
      const int least = std::max(1, static_cast<int>(8 * m));
      return keep_bits(pixels, least + static_cast<int>(key.below(9 - least, 5)));
    }
    case 4:
      return solarize_values(pixels, one, other);
    case 5:
      return stretch_channels(pixels);
    case 6:
      return equalize_channels(pixels, 256);
    case 7:
      return brighten(pixels, both);
    case 8:
      return fade(pixels, one);
    case 9:
      return stretch_contrast(pixels, 1 + both);
    default:
      return sharpen(pixels, 2 * one);
  }
}

Pixels pixels_to_augment(const HostTable& image, const std::string& who) {
  Pixels pixels = pixels_of(image, who);
  check_resampling(pixels, {}, who);
  return pixels;
}

}  // namespace

HostTable rand_augment(const HostTable& image, const RowKey& key, const RandAugment& options) {
  check_between(options.count, 0, 1 << 10, "rand_augment", "count");
  check_between(options.magnitude, 0, 1, "rand_augment", "magnitude");
  Pixels pixels = pixels_to_augment(image, "rand_augment");
  for (int i = 0; i < options.count; ++i) {
    const RowKey own = key.fold_in(static_cast<std::uint32_t>(i));
    change(pixels, static_cast<int>(own.below(all_changes)), options.magnitude, own.fold_in(0));
  }
  return image_of(pixels);
}

HostTable aug_mix(const HostTable& image, const RowKey& key, const AugMix& options) {
  const std::string who = "aug_mix";
  check_between(options.chains, 1, 1 << 10, who, "chains");
  check_between(options.depth, 0, 1 << 10, who, "depth");
  check_between(options.magnitude, 0, 1, who, "magnitude");
  check_between(options.alpha, 1e-3, 1e6, who, "alpha");
  const Pixels pixels = pixels_to_augment(image, who);
  const int choices = options.all_ops ? all_changes : changes_without_colours;
  const double kept = drawn_gamma(options.alpha, key.fold_in(0)), mixed = drawn_gamma(options.alpha, key.fold_in(1));
  std::vector<double> weights;
  double total = 0;
  for (int i = 0; i < options.chains; ++i) {
    weights.push_back(drawn_gamma(options.alpha, key.fold_in(2).fold_in(static_cast<std::uint32_t>(i))));
    total += weights.back();
  }
  Pixels result = pixels;
  const auto part = static_cast<float>(kept + mixed > 0 ? kept / (kept + mixed) : 0.5);
  for (float& value : result.values) value *= part;
  for (int i = 0; i < options.chains; ++i) {
    Pixels chain = pixels;
    for (int j = 0; j < options.depth; ++j) {
      const RowKey own = key.fold_in(3).fold_in(static_cast<std::uint32_t>(i)).fold_in(static_cast<std::uint32_t>(j));
      const auto which = static_cast<int>(own.below(choices + 1));
      if (which < choices) change(chain, which, options.magnitude, own.fold_in(0));
    }
    const double share = total > 0 ? weights[static_cast<std::size_t>(i)] / total : 1.0 / options.chains;
    const auto by = static_cast<float>(share) * (1 - part);
    for (std::size_t k = 0; k < result.values.size(); ++k) result.values[k] += by * chain.values[k];
  }
  hold_to_range(result);
  return image_of(result);
}

}  // namespace lockstep::data
