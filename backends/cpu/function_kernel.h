#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include <lockstep/backend/backend.h>

namespace lockstep::backend::cpu {

/// What a kernel promises beside its result.
struct Promises {
  bool strided = false;   ///< Kernel::accepts_strided.
  unsigned in_place = 0;  ///< Bit i: Kernel::accepts_in_place(i).
  std::size_t scratch_bytes = 0;
  std::int64_t summed_apart = 0;  ///< Kernel::summed_apart.
};

/// A kernel made of a function `run(const KernelArguments&)`, which holds everything that was worked out beforehand.
template <class Run>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(Run run, Promises promises) : run_(std::move(run)), promises_(promises) {}

  void run(const KernelArguments& arguments) const override { run_(arguments); }
  std::size_t scratch_bytes() const override { return promises_.scratch_bytes; }
  bool accepts_strided() const override { return promises_.strided; }
  bool accepts_in_place(int input) const override { return input >= 0 && (promises_.in_place >> input & 1U) != 0; }
  std::int64_t summed_apart() const override { return promises_.summed_apart; }

 private:
  Run run_;
  Promises promises_;
};

template <class Run>
std::unique_ptr<Kernel> make_function_kernel(Run run, Promises promises = {}) {
  return std::make_unique<FunctionKernel<Run>>(std::move(run), promises);
}

/// Bits of all inputs whose dtype and shape are those of output 0: where an element-wise kernel may write in place.
unsigned in_place_inputs(const KernelRequest& request);

}  // namespace lockstep::backend::cpu
