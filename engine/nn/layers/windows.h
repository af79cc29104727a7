#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/layers_convolution.h>

// What convolutions and poolings have in common.
namespace lockstep::nn {

/// Throws ShapeError unless x are float images [N, H, W, C].
void check_image(std::string_view layer, const Array& x);

/// Throws ShapeError unless x are floats [N, spatial..., C] of one to `most` spatial dimensions; their number.
int spatial_dimensions(std::string_view layer, const Array& x, int most);

/// (before, behind) for each spatial dimension of x.
std::vector<std::pair<std::int64_t, std::int64_t>> padding_of(Padding padding, const Array& x, const Axes& window,
                                                              const Axes& strides, const Axes& dilation);

}  // namespace lockstep::nn
