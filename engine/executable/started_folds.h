#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "engine/executable/process_kernels.h"

// A fold over the processes by messages in three calls, between which this process does something else: its parts go to the
// others, it adds up its block of what they sent, and the blocks' sums come back. What each call leaves to the next one lies
// in a value of the program.
namespace lockstep::executable {

/// A fold among those that are under way in a call: `block` bytes of it are added up by each process, which keeps them
/// where it folds to blocks.
struct StartedFold {
  std::shared_ptr<Processes> processes;
  DType dtype = DType::float32;
  std::size_t block = 0;
  bool to_blocks = false;

  std::size_t size() const { return static_cast<std::size_t>(processes->size()); }
  /// Bytes of what StartFold and FoldParts give.
  std::int64_t started_bytes() const;
  std::int64_t folded_bytes() const;
};

/// Any number of operands of one dtype, as if they were one: this process's parts of their blocks go to the others. To
/// blocks, each operand has one for every process, one behind the other.
class StartFold final : public Kernel {
 public:
  explicit StartFold(StartedFold fold) : fold_(std::move(fold)) {}
  void run(const KernelArguments& arguments) const override;

 private:
  StartedFold fold_;
};

/// From what StartFold gave: waits for the others' parts, adds up this process's block and begins to send the sums.
class FoldParts final : public ProcessFold {
 public:
  /// `cut` is that of a block (FoldCut::of_blocks).
  FoldParts(StartedFold fold, const FoldCut& cut, const ChunkKernels& kernels)
      : ProcessFold(fold.processes, cut, kernels, false), fold_(std::move(fold)) {}
  void run(const KernelArguments& arguments) const override;

 private:
  StartedFold fold_;
};

/// From what StartFold gave to blocks: waits for the others' parts, and gives the sums of this process's block by operand.
class EndBlocks final : public ProcessFold {
 public:
  /// `cut` is that of a block (FoldCut::of_blocks).
  EndBlocks(StartedFold fold, const FoldCut& cut, const ChunkKernels& kernels)
      : ProcessFold(fold.processes, cut, kernels, false), fold_(std::move(fold)) {}
  void run(const KernelArguments& arguments) const override;

 private:
  StartedFold fold_;
};

/// From what both gave: waits for the sums, and gives them by operand.
class EndFold final : public Kernel {
 public:
  explicit EndFold(StartedFold fold) : fold_(std::move(fold)) {}
  void run(const KernelArguments& arguments) const override;

 private:
  StartedFold fold_;
};

}  // namespace lockstep::executable
