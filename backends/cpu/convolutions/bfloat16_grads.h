#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

#include "backends/cpu/convolutions/convolution_geometry.h"
#include "backends/cpu/products/bfloat16_products.h"

namespace lockstep::backend::cpu {

/// A gradient of a convolution in bfloat16 by the processor's products of pairs, added up in float32: of the kernel, for
/// which oneDNN takes 1.1 to 1.5 times as long where there are not very many channels, and of x where windows are some
/// steps apart, 1.3 to 3 times. Null where it does not (decided by shapes alone), for groups, for more than two
/// dimensions, for other dtypes, and on processors that have no such products or multiply whole tiles faster.
///
/// The kernel's gradient is added up over images, then places of y, both in ascending order, two columns at a time; that
/// of x over places of the window in row-major order, in each over pairs of channels. Places beyond an array's edge, but
/// rows of padding in the kernel's gradient, are zeros, of which an infinity in the other operand makes NaN.
std::unique_ptr<Kernel> make_bfloat16_grad(const KernelRequest& request, const ConvolutionGeometry& geometry,
                                           Bfloat16Products products);

}  // namespace lockstep::backend::cpu
