#pragma once

namespace lockstep {

/// Frees the blocks that the calling thread keeps (block_pool.h).
void free_own_blocks() noexcept;

}  // namespace lockstep
