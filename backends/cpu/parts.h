#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <lockstep/backend/backend.h>
#include <lockstep/backend/row_kernels.h>

#include "backends/cpu/blocks.h"

namespace lockstep::backend::cpu {

/// Fewer multiplications than this are not worth meeting for.
constexpr std::int64_t least_part = std::int64_t{1} << 22;

/// By how many bytes each of the two operands and the result lie further for each index along the axis that is cut.
struct PartSteps {
  std::array<std::size_t, 2> inputs;
  std::size_t result;
};

/// The kernel, run where its operands and its result lie so many bytes further.
std::unique_ptr<Kernel> shifted(std::shared_ptr<const Kernel> kernel, const PartSteps& offsets);

/// Parts of `most` indices each, the last one perhaps of fewer: the kernel that `make` gives for so many, run where each
/// begins. Empty where it gives none.
std::vector<std::unique_ptr<Kernel>> cut(std::int64_t extent, std::int64_t most, const PartSteps& steps,
                                         const std::function<std::shared_ptr<const Kernel>(std::int64_t)>& make);

/// A kernel that makes a result of images from as many, some at a time, each block as if it were alone.
class ImageKernel : public RowWriter {
 public:
  /// Images in all blocks but perhaps the last.
  virtual std::int64_t images_at_once() const = 0;
  /// The same blocks, of the first `count` images: whole blocks or, run where those begin, all from some block on. Not of
  /// a kernel that sums over images.
  virtual std::unique_ptr<Kernel> of_images(std::int64_t count) const = 0;
};

/// Whether parts of a kernel, floats in and out, give its bits: both are run on operands drawn at random. oneDNN blocks a
/// product's depth by all its extents, so where a part is added up in the same order is for a trial to say.
bool have_same_bits(const KernelRequest& request, const Kernel& whole,
                    const std::vector<std::unique_ptr<Kernel>>& parts);

}  // namespace lockstep::backend::cpu
