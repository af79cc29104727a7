#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// conv, conv_input_grad or conv_kernel_grad with the attribute `sum_blocks`, of floats, whose bits do not depend on how
/// many images and features there are. Of float32, from +0 by fused multiply-adds: y over the places of the window, at
/// each over the features of x, ascending; the kernel's gradient over images, in each over the places of y; the gradient of x
/// over the places of y, at each over those of the window, of sums over the features of y. Padding is multiplied as
/// zeros. Of other floats, and where the processor has no AVX2, plain loops.
std::unique_ptr<Kernel> make_ordered_conv(const KernelRequest& request);

}  // namespace lockstep::backend::cpu
