#include "engine/executable/exchange_parts_kernel.h"

#include <cstring>
#include <span>

namespace lockstep::executable {
namespace {

/// Calls `row(offset)` for each row of a box of a row-major array, in order: where it begins, in elements.
template <class Row>
void for_each_row(const Shape& array, const Shape& start, const Shape& box, const Row& row) {
  const int rank = array.rank();
  std::vector<std::int64_t> at(static_cast<std::size_t>(rank));
  for (;;) {
    std::int64_t offset = 0;
    for (int d = 0; d < rank; ++d) offset = offset * array[d] + start[d] + at[static_cast<std::size_t>(d)];
    row(offset);
    int d = rank - 2;
    while (d >= 0 && ++at[static_cast<std::size_t>(d)] == box[d]) at[static_cast<std::size_t>(d--)] = 0;
    if (d < 0) return;
  }
}

std::size_t row_bytes(const Shape& box, DType dtype) {
  return static_cast<std::size_t>(box.rank() == 0 ? 1 : box[box.rank() - 1]) * size_of(dtype);
}

}  // namespace

ExchangeParts::ExchangeParts(std::shared_ptr<Processes> processes, std::vector<std::vector<MovedBox>> sent,
                             std::vector<std::vector<MovedBox>> received, std::int64_t most, DType dtype)
    : processes_(std::move(processes)),
      sent_(std::move(sent)),
      received_(std::move(received)),
      most_(most),
      dtype_(dtype) {}

// Scratch: a block for each process to send, and one from each.
std::size_t ExchangeParts::scratch_bytes() const { return 2 * block_bytes() * sent_.size(); }

void ExchangeParts::run(const KernelArguments& arguments) const {
  const ArrayView& from = arguments.inputs[0];
  const ArrayView& to = arguments.outputs[0];
  const std::size_t all = block_bytes() * sent_.size();
  auto* const packed = static_cast<std::byte*>(arguments.scratch);
  std::byte* const arrived = packed + all;
  for (std::size_t r = 0; r < sent_.size(); ++r) {
    std::byte* next = packed + r * block_bytes();
    for (const MovedBox& box : sent_[r]) {
      const std::size_t bytes = row_bytes(box.shape, dtype_);
      for_each_row(from.shape, box.from, box.shape, [&](std::int64_t offset) {
        std::memcpy(next, static_cast<const std::byte*>(from.data) + static_cast<std::size_t>(offset) * size_of(dtype_),
                    bytes);
        next += bytes;
      });
    }
    std::memset(next, 0, static_cast<std::size_t>(packed + (r + 1) * block_bytes() - next));
  }
  processes_->all_to_all(std::span<const std::byte>(packed, all), std::span<std::byte>(arrived, all));
  for (std::size_t r = 0; r < received_.size(); ++r) {
    const std::byte* next = arrived + r * block_bytes();
    for (const MovedBox& box : received_[r]) {
      const std::size_t bytes = row_bytes(box.shape, dtype_);
      for_each_row(to.shape, box.to, box.shape, [&](std::int64_t offset) {
        std::memcpy(static_cast<std::byte*>(to.data) + static_cast<std::size_t>(offset) * size_of(dtype_), next, bytes);
        next += bytes;
      });
    }
  }
}

}  // namespace lockstep::executable
