#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::ops {

/// Every op by its plain-loop reference, memory from the heap: the oracle as a backend, for tests and `eval`.
std::shared_ptr<const backend::Backend> reference_backend();

}  // namespace lockstep::ops
