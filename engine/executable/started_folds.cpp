#include "engine/executable/started_folds.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/backend/round_up.h>

#include "engine/executable/joined_views.h"

namespace lockstep::executable {
namespace {

/// In front of what a call leaves to the next one: the number of the collective under way.
using Head = std::uint64_t;
constexpr std::size_t head_bytes = buffer_alignment;
static_assert(sizeof(Head) <= head_bytes);

Head head_of(const ArrayView& view) {
  Head head = 0;
  std::memcpy(&head, view.data, sizeof(head));
  return head;
}

std::byte* behind_head(const ArrayView& view) { return static_cast<std::byte*>(view.data) + head_bytes; }

}  // namespace

// What is sent, which the sums come back to, and what comes.
std::int64_t StartedFold::started_bytes() const { return static_cast<std::int64_t>(head_bytes + 2 * size() * block); }

std::int64_t StartedFold::folded_bytes() const { return static_cast<std::int64_t>(head_bytes + block); }

void StartFold::run(const KernelArguments& arguments) const {
  const std::size_t all = fold_.size() * fold_.block;
  const ArrayView& started = arguments.outputs[0];
  std::byte* const sent = behind_head(started);
  if (fold_.to_blocks) {
    for (std::size_t p = 0; p < fold_.size(); ++p) {
      copy_in(arguments.inputs, {p, fold_.size()}, 0, fold_.block, sent + p * fold_.block);
    }
  } else {
    const std::size_t bytes = nbytes(arguments.inputs);
    copy_in(arguments.inputs, 0, bytes, sent);
    std::memset(sent + bytes, 0, all - bytes);
  }
  const char* const name = fold_.to_blocks ? "fold: exchange of blocks" : "fold: exchange of parts";
  const Head head = fold_.processes->start_all_to_all(std::span<const std::byte>(sent, all), std::span(sent + all, all),
                                                      {name, fold_.dtype});
  std::memcpy(started.data, &head, sizeof(head));
}

void FoldParts::run(const KernelArguments& arguments) const {
  const ArrayView& started = arguments.inputs[0];
  const ArrayView& folded = arguments.outputs[0];
  processes().finish(head_of(started));
  std::byte* const all = behind_head(started);
  std::byte* const received = all + fold_.size() * fold_.block;
  std::byte* const sums = behind_head(folded);
  for (std::int64_t k = 0; k < cut().pieces; ++k) {
    const std::size_t at = static_cast<std::size_t>(k) * chunk_bytes();
    const auto leaf = [&](int p) { return received + static_cast<std::size_t>(p) * fold_.block + at; };
    fold(k, leaf, sums + at, arguments);
  }
  const Head head =
      processes().start_all_gather(std::span<const std::byte>(sums, fold_.block),
                                   std::span(all, fold_.size() * fold_.block), {"fold: gather of sums", fold_.dtype});
  std::memcpy(folded.data, &head, sizeof(head));
}

void EndBlocks::run(const KernelArguments& arguments) const {
  const ArrayView& started = arguments.inputs[0];
  processes().finish(head_of(started));
  const std::byte* const received = behind_head(started) + fold_.size() * fold_.block;
  auto* const sums = static_cast<std::byte*>(arguments.scratch);
  for (std::int64_t k = 0; k < cut().pieces; ++k) {
    const std::size_t first = static_cast<std::size_t>(k) * chunk_bytes();
    const auto leaf = [&](int p) { return received + static_cast<std::size_t>(p) * fold_.block + first; };
    fold(k, leaf, sums, arguments);
    copy_out(sums, first, first + cut().bytes(cut().chunk_of(k)), arguments.outputs);
  }
}

void EndFold::run(const KernelArguments& arguments) const {
  fold_.processes->finish(head_of(arguments.inputs[1]));
  copy_out(behind_head(arguments.inputs[0]), 0, nbytes(arguments.outputs), arguments.outputs);
}

}  // namespace lockstep::executable
