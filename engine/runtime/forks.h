#pragma once

#include <cstdint>

namespace lockstep::runtime {

/// How many calls of fork lie between this process and the one that loaded the library: a child has one thread, so what
/// was made at a smaller count has lost its own.
std::uint64_t forks();

}  // namespace lockstep::runtime
