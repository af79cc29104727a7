#include "engine/executable/pairwise_sum_kernel.h"

#include <cstdint>

#include <lockstep/backend/pairwise_sums.h>

namespace lockstep::executable {
namespace {

template <class T>
void join_sums(const KernelArguments& arguments) {
  const auto* sums = static_cast<const T*>(arguments.inputs[0].data);
  PairwiseSums<T> joined;
  for (std::int64_t i = 0; i < arguments.inputs[0].shape[0]; ++i) joined.add(sums[i]);
  *static_cast<T*>(arguments.outputs[0].data) = joined.total();
}

}  // namespace

void PairwiseSumKernel::run(const KernelArguments& arguments) const {
  arguments.inputs[0].dtype == DType::float64 ? join_sums<double>(arguments) : join_sums<float>(arguments);
}

}  // namespace lockstep::executable
