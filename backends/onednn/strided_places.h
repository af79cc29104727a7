#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

#include "backends/cpu/convolutions/convolution_geometry.h"

namespace lockstep::backend::onednn {

/// The gradient of a kernel of one place that is strided: the places of x that it meets are laid side by side first, and
/// what is left is a gradient without strides or padding. oneDNN's own writes beyond its memory where there are few
/// channels (oneDNN issue 6035), so it is never asked for one. Null for any other request.
std::unique_ptr<Kernel> make_strided_places(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry);

}  // namespace lockstep::backend::onednn
