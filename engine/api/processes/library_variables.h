// The environment variables that the libraries below read, and which of them may change bits.
#pragma once

#include <span>
#include <string_view>

#include <lockstep/export.h>

namespace lockstep {

/// Each of these may make a library take other kernels, or another order of additions. Processes compare them, and
/// checkpoints' manifests have those that are set.
LOCKSTEP_API std::span<const std::string_view> bit_changing_variables();

/// A variable that a library reads, and why it changes no bit.
struct HarmlessVariable {
  std::string_view name;  ///< One that ends with '*' stands for all that begin so.
  std::string_view reason;
};
LOCKSTEP_API std::span<const HarmlessVariable> harmless_variables();

}  // namespace lockstep
