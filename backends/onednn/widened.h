#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <lockstep/backend/backend.h>

#include "backends/cpu/products/bfloat16_products.h"

namespace lockstep::backend::onednn {

/// Of this processor, as far as oneDNN may use it.
cpu::Bfloat16Products bfloat16_products();

/// Whether a product or convolution is of bfloat16 and made as of float32.
bool is_widened(const KernelRequest& request);

using MakeKernel = std::function<std::unique_ptr<Kernel>(const KernelRequest&)>;

/// A kernel on bfloat16 operands and results that are float32 inside: `make`'s kernel for float32, on widened copies in
/// scratch. Convolutions are taken a few images at a time, which stay in the cache. Null where `make` has none.
std::unique_ptr<Kernel> make_widened(const KernelRequest& request, const MakeKernel& make);

}  // namespace lockstep::backend::onednn
