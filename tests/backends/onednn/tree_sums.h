#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/backends/onednn/onednn_runs.h"

// What kernels that sum what several shards give must give themselves.
namespace lockstep::tests {

inline std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// S(first, last) = S(first, middle) + S(middle, last).
inline std::vector<float> tree_sum(const std::vector<std::vector<float>>& leaves, std::size_t first, std::size_t last) {
  if (last == first + 1) return leaves[first];
  std::vector<float> left = tree_sum(leaves, first, (first + last) / 2);
  const std::vector<float> right = tree_sum(leaves, (first + last) / 2, last);
  for (std::size_t i = 0; i < left.size(); ++i) left[i] += right[i];
  return left;
}

/// The kernel of a request, and its parts one after the other from the last one on, give these floats.
inline void check_sum(const backend::KernelRequest& request, const backend::Kernel& whole,
                      const std::vector<ArrayView>& operands, const std::vector<float>& expected, bool in_parts) {
  const auto run = [&](const std::vector<const backend::Kernel*>& kernels) {
    const Memory result(static_cast<std::size_t>(request.outputs[0].nbytes()));
    const ArrayView view = contiguous_view(result.data(), float32, request.outputs[0].shape);
    for (const backend::Kernel* kernel : kernels) {
      const Memory scratch(kernel->scratch_bytes());
      kernel->run({operands, {&view, 1}, scratch.data()});
    }
    return floats(result.bytes());
  };
  CHECK(run({&whole}) == expected);
  const std::vector<std::unique_ptr<backend::Kernel>> parts = onednn().make_parts(request, whole);
  CHECK((parts.size() > 1) == in_parts);
  std::vector<const backend::Kernel*> reversed;
  for (std::size_t i = parts.size(); i-- > 0;) reversed.push_back(parts[i].get());
  if (!parts.empty()) CHECK(run(reversed) == expected);
}

}  // namespace lockstep::tests
