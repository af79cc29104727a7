#pragma once

#include <memory>

#include <lockstep/backend.h>

#include "backends/onednn/convolution_geometry.h"

namespace lockstep::backends::onednn {

/// A convolution of 3 x 3 windows next to each other, or a gradient of it, in tiles of 2 x 2 places of y by 16 products
/// for each pair of channels where the definition takes 36: F(2 x 2, 3 x 3) of Lavin and Gray, "Fast Algorithms for
/// Convolutional Neural Networks" (2015). Null where it is not faster (decided by shapes alone), or for other dtypes than
/// float32.
///
/// Its sums are in another order than the definition's and its terms are sums of up to 16 elements: results are exact
/// wherever all of these are, as for small integers; an infinity or a NaN reaches all places of its tiles.
std::unique_ptr<Kernel> make_winograd(const KernelRequest& request, const ConvolutionGeometry& geometry);

}  // namespace lockstep::backends::onednn
