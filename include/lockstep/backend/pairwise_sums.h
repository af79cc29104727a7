#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep::backend {

/// Sums of blocks one behind the other, joined in pairs as the digits of a binary counter are carried; those left over
/// at the end, the last one first. Blocks joined apart, a power of two of them at a time, give the same bits.
template <class T>
class PairwiseSums {
 public:
  void add(T block) {
    waiting_[depth_++] = block;
    for (std::uint64_t digit = blocks_++; (digit & 1) != 0; digit >>= 1) join_last_two();
  }

  /// Of all blocks; 0 of none. Nothing is added behind it.
  T total() {
    while (depth_ > 1) join_last_two();
    return depth_ == 0 ? T(0) : waiting_[0];
  }

 private:
  void join_last_two() {
    --depth_;
    waiting_[depth_ - 1] += waiting_[depth_];
  }

  std::array<T, 65> waiting_;
  std::size_t depth_ = 0;
  std::uint64_t blocks_ = 0;
};

}  // namespace lockstep::backend
