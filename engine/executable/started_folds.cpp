#include "engine/executable/started_folds.h"

#include <algorithm>
#include <cstring>
#include <span>

#include <lockstep/backend/aligned_memory.h>
#include <lockstep/backend/round_up.h>

#include "engine/executable/joined_views.h"

namespace lockstep::executable {
namespace {

/// In front of what a call leaves to the next one.
struct Head {
  std::uint64_t number = 0;  ///< Of the collective under way.
  std::int64_t turn = 0;     ///< Of the windows.
};
constexpr std::size_t head_bytes = buffer_alignment;
static_assert(sizeof(Head) <= head_bytes);

Head head_of(const ArrayView& view) {
  Head head;
  std::memcpy(&head, view.data, sizeof(head));
  return head;
}

std::byte* behind_head(const ArrayView& view) { return static_cast<std::byte*>(view.data) + head_bytes; }

std::byte* parts_of(const StartedFold& fold, int process, std::int64_t turn) {
  const int window = ProcessFold::parts_window + static_cast<int>(turn);
  const std::size_t bytes = ProcessFold::window_head + fold.all * fold.size();
  return fold.processes->window(process, window, bytes).data() + ProcessFold::window_head + fold.first * fold.size();
}

std::byte* sums_of(const StartedFold& fold, int process) {
  return fold.processes->window(process, ProcessFold::sums_of_parts_window, fold.all).data() + fold.first;
}

}  // namespace

// By messages: what is sent, which the sums come back to, and what comes.
std::int64_t StartedFold::started_bytes() const {
  return static_cast<std::int64_t>(head_bytes + (has_windows() ? 0 : 2 * size() * block));
}

std::int64_t StartedFold::folded_bytes() const {
  return static_cast<std::int64_t>(head_bytes + (has_windows() ? 0 : block));
}

void StartFold::run(const KernelArguments& arguments) const {
  Processes& processes = *fold_.processes;
  const std::size_t all = fold_.size() * fold_.block;
  const ArrayView& started = arguments.outputs[0];
  Head head;
  std::byte* sent = behind_head(started);
  if (fold_.has_windows()) {
    head.turn = ProcessFold::turn_of_call(processes, ProcessFold::parts_window, fold_.all * fold_.size());
    sent = parts_of(fold_, processes.rank(), head.turn);
  }
  const std::size_t bytes = nbytes(arguments.inputs);
  copy_in(arguments.inputs, 0, bytes, sent);
  std::memset(sent + bytes, 0, all - bytes);
  head.number = fold_.has_windows()
                    ? processes.start_meet({"fold: parts in windows", fold_.dtype}, all)
                    : processes.start_all_to_all(std::span<const std::byte>(sent, all), std::span(sent + all, all),
                                                 {"fold: exchange of parts", fold_.dtype});
  std::memcpy(started.data, &head, sizeof(head));
}

void FoldParts::run(const KernelArguments& arguments) const {
  const ArrayView& started = arguments.inputs[0];
  const ArrayView& folded = arguments.outputs[0];
  const auto rank = static_cast<std::size_t>(processes().rank());
  Head head = head_of(started);
  processes().finish(head.number);
  std::byte* const all = behind_head(started);
  std::byte* const received = all + fold_.size() * fold_.block;
  std::byte* const sums = fold_.has_windows() ? sums_of(fold_, processes().rank()) : behind_head(folded);
  for (std::int64_t k = 0; k < cut().pieces; ++k) {
    const std::size_t at = static_cast<std::size_t>(k) * chunk_bytes();
    const auto leaf = [&](int p) -> const std::byte* {
      if (fold_.has_windows()) return parts_of(fold_, p, head.turn) + rank * fold_.block + at;
      return received + static_cast<std::size_t>(p) * fold_.block + at;
    };
    fold(k, leaf, sums + at, arguments);
  }
  head.number = fold_.has_windows() ? processes().start_meet({"fold: sums in windows", fold_.dtype}, fold_.block)
                                    : processes().start_all_gather(std::span<const std::byte>(sums, fold_.block),
                                                                   std::span(all, fold_.size() * fold_.block),
                                                                   {"fold: gather of sums", fold_.dtype});
  std::memcpy(folded.data, &head, sizeof(head));
}

void EndFold::run(const KernelArguments& arguments) const {
  fold_.processes->finish(head_of(arguments.inputs[1]).number);
  const std::size_t bytes = nbytes(arguments.outputs);
  if (!fold_.has_windows()) return copy_out(behind_head(arguments.inputs[0]), 0, bytes, arguments.outputs);
  for (std::size_t p = 0; p < fold_.size(); ++p) {
    const std::size_t from = std::min(p * fold_.block, bytes);
    copy_out(sums_of(fold_, static_cast<int>(p)), from, std::min(from + fold_.block, bytes), arguments.outputs);
  }
}

}  // namespace lockstep::executable
