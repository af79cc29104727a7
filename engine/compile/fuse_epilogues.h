#pragma once

#include <string_view>
#include <vector>

#include "engine/compile/choose_views.h"
#include "engine/compile/group_shards.h"

namespace lockstep::compile {

/// A convolution and the loop that reads its result, as one item.
struct FusedItem {
  int at = -1;  ///< In the place of that one of both.
  Item item;
  const Kernel* kernel = nullptr;
};

struct Epilogues {
  IdVector<FusedItem> fused;
  IdVector<int> of_item;  ///< By item: which of `fused` computes it, or -1.

  /// What stands where item `i` does, or null.
  const FusedItem* at(int i) const {
    const int f = of_item[i];
    return f >= 0 && fused[f].at == i ? &fused[f] : nullptr;
  }
};

/// None.
Epilogues no_epilogues(const Program& program);
/// Those of kernels that are chosen, but for what is computed for several shards.
Epilogues fuse_epilogues(const Program& program, const KernelChoices& choices, const GroupedItems& grouped);

/// Items that stand nowhere or in two, without a kernel, or whose results are not those of the two they are made of.
void verify(const Program& program, const Epilogues& epilogues, std::string_view behind);

}  // namespace lockstep::compile
