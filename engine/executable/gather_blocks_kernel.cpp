#include "engine/executable/gather_blocks_kernel.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/executable/joined_views.h"

namespace lockstep::executable {
namespace {

/// Of a process. In windows a copy should find its bytes in the cache; a message has to be long to be worth its way.
constexpr std::size_t longest_in_windows = std::size_t{512} << 10;
constexpr std::size_t longest_in_messages = std::size_t{1} << 20;

}  // namespace

GatherBlocks::GatherBlocks(std::shared_ptr<Processes> processes, const GatheredBlocks& cut)
    : processes_(std::move(processes)), cut_(cut) {}

std::size_t GatherBlocks::own_bytes() const {
  return cut_.block_bytes() * static_cast<std::size_t>(cut_.blocks / processes_->size());
}

std::size_t GatherBlocks::piece_bytes() const {
  return std::min(own_bytes(), processes_->has_windows() ? longest_in_windows : longest_in_messages);
}

// By messages: a piece of this process, and one of each.
std::size_t GatherBlocks::scratch_bytes() const {
  return processes_->has_windows() ? 0 : piece_bytes() * static_cast<std::size_t>(1 + processes_->size());
}

void GatherBlocks::place(int process, std::size_t first, std::span<const std::byte> bytes, std::byte* result) const {
  const std::size_t width = cut_.row_bytes * static_cast<std::size_t>(cut_.blocks);  // of the array's row
  const std::size_t before = static_cast<std::size_t>(process) * own_bytes();
  while (!bytes.empty()) {
    const std::size_t at = before + first;
    const std::size_t block = at / cut_.block_bytes();
    const std::size_t row = at % cut_.block_bytes() / cut_.row_bytes;
    const std::size_t column = at % cut_.row_bytes;
    const std::size_t count = std::min(cut_.row_bytes - column, bytes.size());
    std::memcpy(result + row * width + block * cut_.row_bytes + column, bytes.data(), count);
    bytes = bytes.subspan(count);
    first += count;
  }
}

// Windows take turns as those of pairs do.
void GatherBlocks::run(const KernelArguments& arguments) const {
  const CollectiveName name{"gather of blocks", arguments.inputs[0].dtype};
  const int rank = processes_->rank();
  const int size = processes_->size();
  auto* const result = static_cast<std::byte*>(arguments.outputs[0].data);
  auto* const scratch = static_cast<std::byte*>(arguments.scratch);
  for (std::size_t first = 0; first < own_bytes(); first += piece_bytes()) {
    const std::size_t bytes = std::min(piece_bytes(), own_bytes() - first);
    const auto turn = static_cast<int>(processes_->meetings() % 2);
    const bool in_windows = processes_->has_windows();
    const auto window = [&](int process) { return processes_->window(process, turn, bytes).data(); };
    std::byte* const own = in_windows ? window(rank) : scratch;
    std::byte* const received = scratch + piece_bytes();
    copy_in(arguments.inputs, first, first + bytes, own);
    if (in_windows) {
      processes_->meet(name, bytes);
    } else {
      processes_->all_gather({own, bytes}, {received, bytes * static_cast<std::size_t>(size)}, name);
    }
    for (int p = 0; p < size; ++p) {
      const std::byte* const from = in_windows ? window(p) : received + static_cast<std::size_t>(p) * bytes;
      place(p, first, {p == rank ? own : from, bytes}, result);
    }
  }
  // What comes next may write where the others still read the last piece.
  if (processes_->has_windows()) processes_->meet({"gather: blocks are read", name.dtype}, 0);
}

}  // namespace lockstep::executable
