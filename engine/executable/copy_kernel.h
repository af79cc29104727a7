#pragma once

#include <lockstep/backend/backend.h>

namespace lockstep::executable {

using namespace backend;

/// Copies between two views of one shape and dtype with any strides, the output's too.
class CopyKernel final : public Kernel {
 public:
  void run(const KernelArguments& arguments) const override;
  bool accepts_strided() const override { return true; }
};

/// Writes zeros of any dtype. Its operand is not read: it stands for what the zeros wait for.
class ZeroKernel final : public Kernel {
 public:
  void run(const KernelArguments& arguments) const override;
  bool accepts_strided() const override { return true; }
};

}  // namespace lockstep::executable
