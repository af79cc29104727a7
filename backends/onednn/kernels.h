#pragma once

#include <memory>

#include <lockstep/backend.h>

namespace lockstep::backends::onednn {

/// Each returns null where this backend has nothing better than what stands behind it.
std::unique_ptr<Kernel> make_dot_general(const KernelRequest& request);
std::unique_ptr<Kernel> make_convolution(const KernelRequest& request);  ///< And both gradients.
std::unique_ptr<Kernel> make_attention(const KernelRequest& request);    ///< And the gradient.

}  // namespace lockstep::backends::onednn
