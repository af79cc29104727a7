#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

namespace lockstep::tests {

/// How often the process takes memory from the system's allocator, on any thread, while `work` runs. What oneDNN takes
/// is not counted.
std::int64_t allocations_during(const std::function<void()>& work);

/// Whether this build counts: a sanitizer brings its own allocator.
bool counts_allocations();
inline constexpr const char* not_counted = "a sanitizer has an allocator of its own";

/// The nth allocation of the process from now on, from 0, of those of so many bytes at least, finds no memory.
void fail_allocation(std::int64_t nth, std::size_t at_least = 0);
/// Whether it has been asked for.
bool has_failed();

}  // namespace lockstep::tests
