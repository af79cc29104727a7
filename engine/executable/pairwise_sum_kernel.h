#pragma once

#include <lockstep/backend/backend.h>

namespace lockstep::executable {

using namespace backend;

/// The sum of a row of float32 or float64 numbers, joined in pairs as the digits of a binary counter are carried: what
/// `Kernel::summed_apart` speaks of.
class PairwiseSumKernel final : public Kernel {
 public:
  void run(const KernelArguments& arguments) const override;
};

}  // namespace lockstep::executable
