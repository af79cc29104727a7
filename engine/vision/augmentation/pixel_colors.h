#pragma once

#include <array>
#include <cstdint>

#include <lockstep/vision/augmentation_colors.h>

#include "engine/vision/augmentation/pixels.h"

// Changes of pixels in place, without a look at their arguments.
namespace lockstep::data {

void hold_to_range(Pixels& pixels);
void brighten(Pixels& pixels, double delta);
void stretch_contrast(Pixels& pixels, double factor);
void turn_hue(Pixels& pixels, double turn);
void scale_saturation(Pixels& pixels, double factor);
void fade(Pixels& pixels, double share);
void invert_values(Pixels& pixels);
void keep_bits(Pixels& pixels, int bits);
void solarize_values(Pixels& pixels, double threshold, double addition);
void stretch_channels(Pixels& pixels);
void equalize_channels(Pixels& pixels, int bins);
void equalize_tiles(Pixels& pixels, const AdaptiveEqualization& options);
void sharpen(Pixels& pixels, double factor);
void blur(Pixels& pixels, const BlurWindow& window);

}  // namespace lockstep::data
