#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend {

/// ATen's kernels, for what backends/cpu has no loop of. CPU. They are in a module: this folder's sources are its own, and
/// the library has the list of them, from which it makes this backend.
std::shared_ptr<const Backend> make_aten_backend();

namespace aten {
using backend::make_aten_backend;
}

}  // namespace lockstep::backend
