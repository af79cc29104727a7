#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/backend/backend.h>
#include <lockstep/processes.h>

namespace lockstep::executable {

using namespace backend;

/// How blocks of equal size, the same number of each process, lie in the array that they make: block i, of process
/// i / (blocks / processes), from row i * rows on. All in bytes.
struct GatheredBlocks {
  std::int64_t blocks = 1;
  std::size_t rows = 1;  ///< Of a block that lie apart from each other in the array, one behind the other in the block.
  std::size_t row_bytes = 0;  ///< Of a block's.

  std::size_t block_bytes() const { return rows * row_bytes; }
};

/// The blocks of all processes, each where it belongs in the result: what the others have is copied from their windows
/// into place, or comes by messages. The operands are this process's blocks; piece by piece, so that what is on its way is
/// small.
class GatherBlocks final : public Kernel {
 public:
  GatherBlocks(std::shared_ptr<Processes> processes, const GatheredBlocks& cut);
  void run(const KernelArguments& arguments) const override;
  std::size_t scratch_bytes() const override;

 private:
  std::size_t own_bytes() const;
  std::size_t piece_bytes() const;
  /// Bytes `first` on of a process's blocks, one behind the other, into the result.
  void place(int process, std::size_t first, std::span<const std::byte> bytes, std::byte* result) const;

  std::shared_ptr<Processes> processes_;
  GatheredBlocks cut_;
};

}  // namespace lockstep::executable
