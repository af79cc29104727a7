#include "engine/executable/process_kernels.h"

#include <cstring>
#include <span>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/backend/round_up.h>

#include "engine/core/fold_tree.h"

namespace lockstep::executable {
namespace {

std::size_t aligned(std::size_t bytes) { return round_up(bytes, buffer_alignment); }

std::span<const std::byte> bytes_of(const void* data, std::size_t n) {
  return {static_cast<const std::byte*>(data), n};
}
std::span<std::byte> writable(void* data, std::size_t n) { return {static_cast<std::byte*>(data), n}; }

std::size_t nbytes(const ArrayView& view) { return static_cast<std::size_t>(view.shape.size()) * size_of(view.dtype); }

}  // namespace

std::int64_t FoldAcrossProcesses::chunk_elements(std::int64_t elements, int processes) {
  constexpr std::int64_t granule = 16;
  return round_up<std::int64_t>(ceil_div<std::int64_t>(elements, processes), granule);
}

FoldAcrossProcesses::FoldAcrossProcesses(std::shared_ptr<Processes> processes, const Kernel* fold, DType dtype,
                                         std::int64_t elements)
    : processes_(std::move(processes)),
      fold_(fold),
      dtype_(dtype),
      elements_(elements),
      chunk_(chunk_elements(elements, processes_->size())) {
  while ((1 << levels_) < processes_->size()) ++levels_;
}

// Scratch: sent chunks, received chunks, two temporaries a level, the fold kernel's own.
std::size_t FoldAcrossProcesses::scratch_bytes() const {
  const std::size_t chunk = aligned(static_cast<std::size_t>(chunk_) * size_of(dtype_));
  const auto chunks = static_cast<std::size_t>(2 * processes_->size() + 2 * (levels_ + 1));
  return chunk * chunks + fold_->scratch_bytes();
}

const std::byte* FoldAcrossProcesses::fold(const std::byte* leaves, std::byte* temporaries, void* scratch) const {
  const std::size_t chunk = static_cast<std::size_t>(chunk_) * size_of(dtype_);
  const Shape shape{chunk_};
  const auto leaf = [&](std::int64_t i, TreeNode) { return leaves + static_cast<std::size_t>(i) * chunk; };
  const auto combine = [&](const std::byte* left, const std::byte* right, TreeNode node) -> const std::byte* {
    std::byte* result = temporaries + static_cast<std::size_t>(2 * node.level + node.side) * aligned(chunk);
    const std::array<ArrayView, 2> inputs = {contiguous_view(const_cast<std::byte*>(left), dtype_, shape),
                                             contiguous_view(const_cast<std::byte*>(right), dtype_, shape)};
    const std::array<ArrayView, 1> outputs = {contiguous_view(result, dtype_, shape)};
    fold_->run({inputs, outputs, scratch});
    return result;
  };
  return fold_tree<const std::byte*>(0, processes_->size(), leaf, combine);
}

void FoldAcrossProcesses::run(const KernelArguments& arguments) const {
  const auto processes = static_cast<std::size_t>(processes_->size());
  const std::size_t chunk = static_cast<std::size_t>(chunk_) * size_of(dtype_);
  const std::size_t total = nbytes(arguments.inputs[0]);
  auto* sent = static_cast<std::byte*>(arguments.scratch);
  std::byte* received = sent + processes * aligned(chunk);
  std::byte* temporaries = received + processes * aligned(chunk);
  std::byte* fold_scratch = temporaries + static_cast<std::size_t>(2 * (levels_ + 1)) * aligned(chunk);
  std::memcpy(sent, arguments.inputs[0].data, total);
  std::memset(sent + total, 0, processes * chunk - total);
  processes_->all_to_all(bytes_of(sent, processes * chunk), writable(received, processes * chunk),
                         {"fold: exchange of parts", dtype_});
  const std::byte* own = fold(received, temporaries, fold_scratch);
  processes_->all_gather(bytes_of(own, chunk), writable(sent, processes * chunk), {"fold: gather of sums", dtype_});
  std::memcpy(arguments.outputs[0].data, sent, total);
}

void GatherFromProcesses::run(const KernelArguments& arguments) const {
  const ArrayView& own = arguments.inputs[0];
  const ArrayView& all = arguments.outputs[0];
  processes_->all_gather(bytes_of(own.data, nbytes(own)), writable(all.data, nbytes(all)),
                         {"gather of blocks", own.dtype});
}

}  // namespace lockstep::executable
