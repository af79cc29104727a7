#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backends::onednn {

/// Whether products of bfloat16 gain anything from this processor's own instructions for them.
bool has_fast_bfloat16();

/// Whether the fastest of them multiply pairs, and not whole tiles.
bool has_pairs_of_bfloat16();

/// Whether a product or convolution is of bfloat16 and made as of float32.
bool is_widened(const KernelRequest& request);

/// n float32 rounded to bfloat16, as backends/bfloat16.h says.
void narrow(const void* from, std::int64_t n, void* to);

using MakeKernel = std::function<std::unique_ptr<Kernel>(const KernelRequest&)>;

/// A kernel on bfloat16 operands and results that are float32 inside: `make`'s kernel for float32, on widened copies in
/// scratch. Convolutions are taken a few images at a time, which stay in the cache. Null where `make` has none.
std::unique_ptr<Kernel> make_widened(const KernelRequest& request, const MakeKernel& make);

}  // namespace lockstep::backends::onednn
