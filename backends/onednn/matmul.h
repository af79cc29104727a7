#pragma once

#include <memory>

#include "backends/onednn/bound_primitive.h"
#include "backends/onednn/library.h"

namespace lockstep::backend::onednn {

/// A batch of matrices. Dimensions of extent 1 get the strides of a packed array, which oneDNN looks for.
dnnl::memory::desc matrices(dnnl::memory::data_type type, dnnl::memory::dims extents, dnnl::memory::dims strides);

/// result = a b, or result += a b. Null where oneDNN has only a plain loop for it.
std::unique_ptr<BoundPrimitive> make_matmul(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                            const dnnl::memory::desc& result, bool adds = false);

}  // namespace lockstep::backend::onednn
