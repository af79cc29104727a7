#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "backends/cpu/function_kernel.h"

namespace lockstep::backend::cpu {

/// Indices [first, last).
struct Range {
  std::int64_t first, last;
  std::int64_t size() const { return last - first; }
};

/// Along what a kernel's work is cut for several threads: `extent` indices, so many a part, but perhaps fewer in the last.
struct Cut {
  std::int64_t extent;
  std::int64_t part;

  /// Of work that moves so many bytes in all, as parts that move few are not worth meeting for, each a multiple of
  /// `grain` indices.
  static Cut of_moves(std::int64_t extent, std::int64_t bytes, std::int64_t grain = 1);
};

/// Columns of a row-major array that two threads may write without meeting in a cache line, or the pair that is fetched.
inline std::int64_t columns_apart(DType dtype) { return 128 / static_cast<std::int64_t>(size_of(dtype)); }

/// A kernel whose work may be done in parts.
class CutKernel final : public Kernel {
 public:
  using MakePart = std::function<std::unique_ptr<Kernel>(Range)>;

  CutKernel(Cut cut, MakePart make_part)
      : cut_(cut), make_part_(std::move(make_part)), whole_(make_part_({0, cut.extent})) {}

  void run(const KernelArguments& arguments) const override { whole_->run(arguments); }
  std::size_t scratch_bytes() const override { return whole_->scratch_bytes(); }
  bool accepts_in_place(int input) const override { return whole_->accepts_in_place(input); }

  /// Backend::make_parts.
  std::vector<std::unique_ptr<Kernel>> parts() const { return parts_of(cut_.part); }
  /// Parts of so many indices.
  std::vector<std::unique_ptr<Kernel>> parts_of(std::int64_t count) const;

 private:
  Cut cut_;
  MakePart make_part_;
  std::unique_ptr<Kernel> whole_;
};

/// A kernel made of `run(arguments, range)`, which does what belongs to the indices of the range, apart from others', with
/// its share of the scratch.
template <class Run>
std::unique_ptr<Kernel> make_cut_kernel(const Cut& cut, Run run, Promises promises = {}) {
  const auto extent = static_cast<std::size_t>(std::max<std::int64_t>(cut.extent, 1));
  const auto make_part = [run = std::move(run), promises, extent](Range range) {
    Promises own = promises;
    own.scratch_bytes = promises.scratch_bytes / extent * static_cast<std::size_t>(range.size());
    const auto part = [run, range](const KernelArguments& arguments) { run(arguments, range); };
    return make_function_kernel(part, own);
  };
  return std::make_unique<CutKernel>(cut, make_part);
}

}  // namespace lockstep::backend::cpu
