#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/layers_convolution.h>

// What convolutions and poolings have in common.
namespace lockstep::nn {

/// Two numbers: padding before and behind, or one for each of two dimensions.
using Pair = std::pair<std::int64_t, std::int64_t>;

/// Throws ShapeError unless x are float images [N, H, W, C].
void check_image(std::string_view layer, const Array& x);

/// Throws ShapeError unless x are floats [N, spatial..., C] of one to `most` spatial dimensions; their number.
int spatial_dimensions(std::string_view layer, const Array& x, int most);

/// One number for each of so many dimensions, of a list with an entry for each or one for all. Throws ValueError for other
/// lists and for numbers below 1.
Axes for_each_dimension(std::string_view layer, std::string_view what, const Axes& given, int dimensions);

/// Throws ValueError for entries below 1.
void check_counts(std::string_view layer, std::string_view what, const Axes& given);

/// (before, behind) for each spatial dimension of x.
std::vector<Pair> padding_of(Padding padding, const Array& x, const Axes& window, const Axes& strides,
                             const Axes& dilation);

}  // namespace lockstep::nn
