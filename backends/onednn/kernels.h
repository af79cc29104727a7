#pragma once

#include <memory>
#include <vector>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::onednn {

/// Each returns null where this backend has nothing better than what stands behind it.
std::unique_ptr<Kernel> make_dot_general(const KernelRequest& request);
/// Parts of that kernel for several threads: some of its rows or columns each. Empty where it is small.
std::vector<std::unique_ptr<Kernel>> make_dot_general_parts(const KernelRequest& request, const Kernel& whole);
/// `sum_of_products`: operands a0 b0 a1 b1 ... of as many products (a power of two, dot_general's attributes), and the
/// tree sum of their results. Null where each product's own kernel has other bits.
std::unique_ptr<Kernel> make_sum_of_products(const KernelRequest& request);
std::vector<std::unique_ptr<Kernel>> make_sum_of_products_parts(const KernelRequest& request);
std::unique_ptr<Kernel> make_convolution(const KernelRequest& request);  ///< And both gradients.
/// Some images each, or some rows of one; empty for a kernel's gradient, which sums over both.
std::vector<std::unique_ptr<Kernel>> make_convolution_parts(const KernelRequest& request, const Kernel& whole);
std::unique_ptr<Kernel> make_attention(const KernelRequest& request);  ///< And the gradient.
/// Some heads of some examples each; empty for the gradient.
std::vector<std::unique_ptr<Kernel>> make_attention_parts(const KernelRequest& request, const Kernel& whole);

}  // namespace lockstep::backend::onednn
