#pragma once

// The backend of plain loops.

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend {

/// Kernels of plain loops, and memory of the process. CPU; knows no library.
std::shared_ptr<const Backend> make_cpu_backend();

}  // namespace lockstep::backend
