#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <lockstep/backend/backend.h>
#include <lockstep/processes.h>

namespace lockstep::executable {

using namespace backend;

/// The fixed tree over what the processes hold: process p gives S(pV/P, (p+1)V/P), every one gets S(0, V). Chunks are
/// exchanged, added here in order, and gathered. Runs on the calling thread.
class FoldAcrossProcesses final : public Kernel {
 public:
  /// Elements of the chunk each process adds up: `fold` is the kernel for that many.
  static std::int64_t chunk_elements(std::int64_t elements, int processes);

  FoldAcrossProcesses(std::shared_ptr<Processes> processes, const Kernel* fold, DType dtype, std::int64_t elements);
  void run(const KernelArguments& arguments) const override;
  std::size_t scratch_bytes() const override;

 private:
  const std::byte* fold(const std::byte* leaves, std::byte* temporaries, void* scratch) const;

  std::shared_ptr<Processes> processes_;
  const Kernel* fold_;
  DType dtype_;
  std::int64_t elements_;
  std::int64_t chunk_;
  int levels_ = 0;
};

/// The blocks of all processes, one behind the other.
class GatherFromProcesses final : public Kernel {
 public:
  explicit GatherFromProcesses(std::shared_ptr<Processes> processes) : processes_(std::move(processes)) {}
  void run(const KernelArguments& arguments) const override;

 private:
  std::shared_ptr<Processes> processes_;
};

}  // namespace lockstep::executable
