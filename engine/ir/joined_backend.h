#pragma once

#include <memory>
#include <vector>

#include <lockstep/backend.h>

namespace lockstep::ir {

/// Several backends as one that evaluates what they compile: each kernel from the first that has one, as in a compiled
/// function, memory from the first that owns any. Entering a thread enters all of them; leaving goes backwards.
std::shared_ptr<const Backend> joined(std::vector<std::shared_ptr<const Backend>> backends);

/// What entering each backend in turn returned; destroyed last first, since each restores what it found.
std::shared_ptr<void> enter_thread(const std::vector<std::shared_ptr<const Backend>>& backends);

}  // namespace lockstep::ir
