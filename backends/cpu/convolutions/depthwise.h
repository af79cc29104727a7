#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

#include "backends/cpu/convolutions/convolution_geometry.h"

namespace lockstep::backend::cpu {

/// A convolution or gradient of as many groups as x has channels, more than one, over one or two dimensions. oneDNN has
/// fast ones for some; for gradients, dilated windows and several features a channel it takes 2 to 10 times as long. Null
/// for others, for many features a channel where that is faster, and for other dtypes than float32.
///
/// A sum over a window goes over its places in row-major order (in the gradient with respect to x, from the last one to
/// the first), the gradient of the window over an image's places of y, then over images; all from +0, each term added
/// without rounding of its product.
std::unique_ptr<Kernel> make_depthwise(const KernelRequest& request, const ConvolutionGeometry& geometry);

}  // namespace lockstep::backend::cpu
