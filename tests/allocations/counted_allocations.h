#pragma once

#include <cstdint>
#include <functional>

namespace lockstep::tests {

/// How often the process takes memory from the system's allocator, on any thread, while `work` runs. What oneDNN takes
/// is not counted.
std::int64_t allocations_during(const std::function<void()>& work);

/// Whether this build counts: a sanitizer brings its own allocator.
bool counts_allocations();

}  // namespace lockstep::tests
