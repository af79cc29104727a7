#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

#include "backends/cpu/convolutions/convolution_geometry.h"

namespace lockstep::backend::onednn {

/// im2col (Chellapilla, Puri, Simard 2006): a convolution or gradient as one product with the kernel as a matrix
/// [window and channels of x, channels of y], the other one being the windows of x side by side: for images so small
/// that oneDNN's convolutions, which work row by row of an image, are slower. Null where they are not (decided by
/// shapes alone), or for other dtypes than float32.
///
/// The gradient with respect to x adds up what the product has for each element from +0: places of y in row-major
/// order, in each its window's places likewise.
std::unique_ptr<Kernel> make_window_product(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry);

/// The same for images of any size, some at a time, for what oneDNN computes so itself, but slowly. The gradient with
/// respect to the kernel adds up the products of such blocks from +0. Null for groups, other dtypes than float32 and
/// images whose windows take very much memory.
std::unique_ptr<Kernel> make_window_products(const KernelRequest& request, const cpu::ConvolutionGeometry& geometry);

}  // namespace lockstep::backend::onednn
