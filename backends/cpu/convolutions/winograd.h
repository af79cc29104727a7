#pragma once

#include <memory>
#include <vector>

#include <lockstep/backend/backend.h>

#include "backends/cpu/convolutions/convolution_geometry.h"
#include "backends/cpu/products/bfloat16_products.h"

namespace lockstep::backend::cpu {

/// A convolution of 3 x 3 windows next to each other, or a gradient of it, in tiles: of float32 by F(2 x 2, 3 x 3) of
/// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), 16 products for each pair of channels where
/// the definition takes 36; of bfloat16 by F(4 x 4, 3 x 3), 36 where it takes 144, multiplied and added in float32 and
/// rounded once. Null where it is not faster (decided by shapes and what the processor multiplies), for other dtypes, and
/// for gradients of the window in bfloat16.
///
/// Its sums are in another order than the definition's and its terms are sums of up to 16 (36) elements; an infinity or a
/// NaN reaches all places of its tiles. Results of float32 are exact wherever all terms are, as for small integers; those
/// of bfloat16 have errors of float32 before they are rounded, some for elements that do not matter, and overflow from
/// 1e36 on.
std::unique_ptr<Kernel> make_winograd(const KernelRequest& request, const ConvolutionGeometry& geometry,
                                      Bfloat16Products products);

/// `conv_of_shards` and `conv_input_grad_of_shards`: convolutions of several arrays with one window, which is transformed
/// once for all of them, with the bits that each has alone. Null where that gains little.
std::unique_ptr<Kernel> make_winograd_of_shards(const KernelRequest& request, Bfloat16Products products);

/// `sum_of_kernel_grads`: of operands x0 dy0 x1 dy1 ... (a power of two of pairs, conv_kernel_grad's attributes), the tree
/// sum of the windows' gradients, with the bits of separate gradients and additions. Null where these are not made in
/// tiles or are of so many that little is gained.
std::unique_ptr<Kernel> make_sum_of_kernel_grads(const KernelRequest& request, Bfloat16Products products);
/// Parts of that kernel: blocks of the window each.
std::vector<std::unique_ptr<Kernel>> make_sum_of_kernel_grads_parts(const KernelRequest& request,
                                                                    Bfloat16Products products);

}  // namespace lockstep::backend::cpu
