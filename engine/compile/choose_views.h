#pragma once

#include <cstdint>
#include <string_view>

#include "engine/compile/program.h"

namespace lockstep::compile {

/// How an item is carried out. What has no kernel and is no view is left to its units: collectives, ways out of maps.
struct KernelChoice {
  bool is_view = false;    ///< No kernel runs: the result lies in the operand's memory.
  std::int64_t tiled = 0;  ///< Flat size where it is cut into tiles, else 0.
  const Kernel* kernel = nullptr;
  const Kernel* rest_kernel = nullptr;  ///< Of the last tile, where that is shorter.
};

using KernelChoices = IdVector<KernelChoice>;  ///< By item.

KernelChoices choose_views(const Program& program);

/// What is neither a view nor has a kernel although it needs one, and what is cut though it runs for every shard.
void verify(const Program& program, const KernelChoices& choices, std::string_view behind);

}  // namespace lockstep::compile
