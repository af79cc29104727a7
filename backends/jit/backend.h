#pragma once

#include <memory>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/isa.h>

namespace lockstep::backend {

/// Element-wise ops of float32 (and the int32, uint32 and bool that masks need), alone and in loops, as machine code
/// made at run time. It owns no memory.
std::shared_ptr<const Backend> make_jit_backend();

namespace jit {

/// With these instructions, which the processor must have.
std::shared_ptr<const Backend> make_backend(Isa isa);

}  // namespace jit

}  // namespace lockstep::backend
