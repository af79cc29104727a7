#pragma once

#include <cstddef>
#include <vector>

#include <lockstep/backend/row_kernels.h>

namespace lockstep::executable {

using namespace backend;

/// A kernel and the element-wise loop that reads its result, which follows a few rows behind: it finds them in the cache.
class EpilogueKernel final : public Kernel {
 public:
  /// Operands: those of `writer`, then those of the loop but for the writer's result. Results: those of the loop, then the
  /// writer's where `result_in` is -1.
  struct Arrays {
    std::size_t writer_inputs = 0;
    std::vector<bool> is_written;  ///< By operand of the loop: the writer's result.
    std::size_t loop_outputs = 0;
    int result_in = -1;  ///< The loop's result that takes the place of the writer's; -1 where this one is given, too.
  };

  EpilogueKernel(const RowWriter& writer, const RowLoop& loop, Arrays arrays)
      : writer_(writer), loop_(loop), arrays_(std::move(arrays)) {}

  void run(const KernelArguments& arguments) const override;
  std::size_t scratch_bytes() const override;
  bool accepts_in_place(int input) const override { return may_share(input, 0); }
  /// A result may stand where the loop may have it, since no row of the writer's operands is read behind the loop.
  bool may_share(int input, int output) const override;

 private:
  std::size_t loop_scratch() const;

  const RowWriter& writer_;
  const RowLoop& loop_;
  Arrays arrays_;
};

}  // namespace lockstep::executable
