#pragma once

#include <string_view>
#include <vector>

#include "engine/compile/program.h"

namespace lockstep::compile {

/// What one kernel computes for several shards, of one item.
struct GroupedItem {
  bool is_in_sum = false;  ///< The sum of its products computes it: it needs no unit of its own.
  int product = -1;        ///< Of a psum: the item whose products of this process's shards its kernel adds up.
  int window = -1;         ///< Of a convolution for all shards of a device: the window, a value that they share.
  /// Of such a sum or convolution.
  const Kernel* kernel = nullptr;
};

using GroupedItems = IdVector<GroupedItem>;  ///< By item.

GroupedItems group_shards(const Program& program);

/// An operand of a call: a value, seen from the running shard or from a given local one.
struct Ref {
  int value = -1;
  int shard = -1;
};
/// What a product of a map reads, on one of this process's shards after the other.
std::vector<Ref> operands_of_local_shards(const Program& program, const Item& product);

/// Products that are not there, or that no sum or two compute.
void verify(const Program& program, const GroupedItems& grouped, std::string_view behind);

}  // namespace lockstep::compile
