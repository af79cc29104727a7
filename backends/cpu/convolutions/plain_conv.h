#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// conv, conv_input_grad or conv_kernel_grad by plain loops, for any number of spatial dimensions; of
/// integers modulo 2^n.
std::unique_ptr<Kernel> make_plain_conv(const KernelRequest& request);

}  // namespace lockstep::backend::cpu
