#include "engine/executable/joined_views.h"

#include <algorithm>
#include <cstring>

namespace lockstep::executable {
namespace {

/// Calls run(data, at, bytes) for what lies between `first` and `last` of the views' blocks; `at` counts from `first` on.
/// All in bytes.
template <class Run>
void for_bytes(std::span<const ArrayView> views, BlockOf which, std::size_t first, std::size_t last, const Run& run) {
  std::size_t begin = 0;
  for (const ArrayView& view : views) {
    const std::size_t bytes = nbytes(view) / which.count;
    const std::size_t end = begin + bytes;
    const std::size_t from = std::max(begin, first);
    const std::size_t to = std::min(end, last);
    std::byte* const data = static_cast<std::byte*>(view.data) + which.block * bytes;
    if (from < to) run(data + (from - begin), from - first, to - from);
    begin = end;
  }
}

}  // namespace

std::size_t nbytes(const ArrayView& view) { return static_cast<std::size_t>(view.shape.size()) * size_of(view.dtype); }

std::size_t nbytes(std::span<const ArrayView> views) {
  std::size_t sum = 0;
  for (const ArrayView& view : views) sum += nbytes(view);
  return sum;
}

void copy_in(std::span<const ArrayView> views, std::size_t first, std::size_t last, std::byte* to) {
  copy_in(views, {}, first, last, to);
}

void copy_in(std::span<const ArrayView> views, BlockOf which, std::size_t first, std::size_t last, std::byte* to) {
  for_bytes(views, which, first, last,
            [&](const std::byte* data, std::size_t at, std::size_t n) { std::memcpy(to + at, data, n); });
}

void copy_out(const std::byte* from, std::size_t first, std::size_t last, std::span<const ArrayView> views) {
  for_bytes(views, {}, first, last,
            [&](std::byte* data, std::size_t at, std::size_t n) { std::memcpy(data, from + at, n); });
}

}  // namespace lockstep::executable
