#pragma once

#include <memory>

#include <lockstep/backend.h>

namespace lockstep::backends::onednn {

/// Returns null where this backend has nothing better than what stands behind it.
std::unique_ptr<Kernel> make_dot_general(const KernelRequest& request);

}  // namespace lockstep::backends::onednn
