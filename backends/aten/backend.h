#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend {

/// The reference backend: a kernel for every op but the collectives, by ATen's operators where it has them and by plain
/// loops elsewhere; memory from ATen's allocator. CPU.
std::shared_ptr<const Backend> make_aten_backend();

namespace aten {
using backend::make_aten_backend;
}

}  // namespace lockstep::backend
