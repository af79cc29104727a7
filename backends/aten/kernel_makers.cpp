#include "backends/aten/kernel_makers.h"

#include <unordered_map>

namespace lockstep::backend::aten {

KernelMaker find_maker(std::string_view op) {
  static const std::unordered_map<std::string_view, KernelMaker> table = {
#define LOCKSTEP_KERNEL(op) {#op, kernels::op},
#include "backends/aten/kernels.def"
#undef LOCKSTEP_KERNEL
  };
  const auto found = table.find(op);
  return found == table.end() ? nullptr : found->second;
}

}  // namespace lockstep::backend::aten
