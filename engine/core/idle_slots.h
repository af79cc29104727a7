#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>

#include <lockstep/backend/reusable_memory.h>

namespace lockstep {

/// Up to `n` objects that wait for their next use. Any thread may take and put without a lock; what finds no slot is
/// destroyed. So is what waits when an allocation fails.
template <class T, std::size_t n>
class IdleSlots final : public backend::ReusableMemory {
 public:
  IdleSlots() = default;
  ~IdleSlots() override {
    forget();
    release();
  }

  void release() noexcept override {
    for (auto& slot : slots_) delete slot.exchange(nullptr, std::memory_order_acquire);
  }

  /// An idle object, or null.
  std::unique_ptr<T> take() {
    for (auto& slot : slots_) {
      if (slot.load(std::memory_order_relaxed) == nullptr) continue;
      if (T* found = slot.exchange(nullptr, std::memory_order_acquire)) return std::unique_ptr<T>(found);
    }
    return nullptr;
  }

  void put(std::unique_ptr<T> object) {
    for (auto& slot : slots_) {
      T* empty = nullptr;
      if (!slot.compare_exchange_strong(empty, object.get(), std::memory_order_release, std::memory_order_relaxed)) {
        continue;
      }
      static_cast<void>(object.release());
      return;
    }
  }

 private:
  std::array<std::atomic<T*>, n> slots_{};
};

}  // namespace lockstep
