#pragma once

#include <memory>

#include <lockstep/backend/backend.h>

namespace lockstep::backend {

/// Matrix products and convolutions by oneDNN, tiny products by a loop of our own. CPU; owns no memory. What it has no
/// fast kernel for it leaves to the backends behind it: it offers nothing where `usable_isa()` is none.
std::shared_ptr<const Backend> make_onednn_backend();

}  // namespace lockstep::backend
