#include "engine/executable/epilogue_kernel.h"

#include <array>
#include <cstdint>

#include <lockstep/error.h>

namespace lockstep::executable {
namespace {

/// Operands of a loop, which backends limit far below.
constexpr std::size_t most_operands = 64;

/// Runs the loop on rows that are there, not on too few at a time.
class LoopBehind final : public RowReader {
 public:
  LoopBehind(const RowLoop& loop, const KernelArguments& arguments, std::int64_t columns)
      : loop_(loop), arguments_(arguments), least_(least_elements / columns) {}

  void read(std::int64_t first, std::int64_t count) override {
    end_ = first + count;
    if (end_ - begin_ >= least_) catch_up();
  }

  void catch_up() {
    if (end_ > begin_) loop_.run_rows(arguments_, begin_, end_ - begin_);
    begin_ = end_;
  }

 private:
  static constexpr std::int64_t least_elements = std::int64_t{1} << 15;

  const RowLoop& loop_;
  const KernelArguments& arguments_;
  std::int64_t least_;
  std::int64_t begin_ = 0, end_ = 0;  ///< Rows that are there, the loop has not gone over.
};

}  // namespace

std::size_t EpilogueKernel::loop_scratch() const { return (writer_.scratch_bytes() + 63) / 64 * 64; }
std::size_t EpilogueKernel::scratch_bytes() const { return loop_scratch() + loop_.scratch_bytes(); }

bool EpilogueKernel::may_share(int input, int output) const {
  if (output == arrays_.result_in || output >= static_cast<int>(arrays_.loop_outputs)) return false;
  int at = static_cast<int>(arrays_.writer_inputs);
  for (std::size_t k = 0; k < arrays_.is_written.size(); ++k) {
    if (arrays_.is_written[k]) continue;
    if (at++ == input) return loop_.may_share(static_cast<int>(k), output);
  }
  return false;
}

void EpilogueKernel::run(const KernelArguments& arguments) const {
  const std::size_t result = arrays_.result_in < 0 ? arrays_.loop_outputs : static_cast<std::size_t>(arrays_.result_in);
  std::array<ArrayView, most_operands> operands;
  std::size_t next = arrays_.writer_inputs;
  for (std::size_t k = 0; k < arrays_.is_written.size(); ++k) {
    operands[k] = arrays_.is_written[k] ? arguments.outputs[result] : arguments.inputs[next++];
  }
  const KernelArguments writing{arguments.inputs.first(arrays_.writer_inputs), arguments.outputs.subspan(result, 1),
                                arguments.scratch};
  const KernelArguments looping{std::span(operands).first(arrays_.is_written.size()),
                                arguments.outputs.first(arrays_.loop_outputs),
                                static_cast<std::byte*>(arguments.scratch) + loop_scratch()};
  if (!loop_.lie_in_rows(looping)) {
    writer_.run(writing);
    loop_.run(looping);
    return;
  }
  LoopBehind behind(loop_, looping, writing.outputs[0].shape.dim(-1));
  loop_.begin(looping);
  writer_.run_for(writing, &behind);
  behind.catch_up();
  loop_.finish(looping);
}

}  // namespace lockstep::executable
