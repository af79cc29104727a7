#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

namespace lockstep::executable {

/// Work stealing (Blumofe and Leiserson 1999). What is left of each device's share of a step: items counted from 0. A
/// device works through its own from the first one on, and then through the last ones of others, so that one that is
/// slower, or has been kept waiting, holds nobody up. Who does what changes no bits. Between two steps with shares all
/// devices must meet.
class Shares {
 public:
  explicit Shares(int devices) : left_(static_cast<std::size_t>(devices)) {}

  /// Sets the share of a device: its own doing, when all of what it had is taken.
  void deal(int device, std::uint32_t items) { of(device).store(items, std::memory_order_release); }

  /// The first item that is left of a device's share, or -1.
  std::int64_t take_first(int device) {
    return take(
        device, [](std::uint64_t first, std::uint64_t) { return first; }, std::uint64_t{1} << 32);
  }
  /// The last one, or -1.
  std::int64_t take_last(int device) {
    return take(
        device, [](std::uint64_t, std::uint64_t end) { return end - 1; }, ~std::uint64_t{0});
  }

 private:
  /// The first item that is left in the upper half, the end in the lower one.
  struct alignas(64) Left {
    std::atomic<std::uint64_t> items{0};
  };

  std::atomic<std::uint64_t>& of(int device) { return left_[static_cast<std::size_t>(device)].items; }

  /// `change` is added to what is left; chosen(first, end) is the item that is gone then.
  template <class Chosen>
  std::int64_t take(int device, Chosen chosen, std::uint64_t change) {
    std::atomic<std::uint64_t>& items = of(device);
    std::uint64_t left = items.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t first = left >> 32, end = left & 0xffffffff;
      if (first >= end) return -1;
      if (items.compare_exchange_weak(left, left + change, std::memory_order_acq_rel, std::memory_order_acquire)) {
        return static_cast<std::int64_t>(chosen(first, end));
      }
    }
  }

  std::vector<Left> left_;
};

}  // namespace lockstep::executable
