#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace lockstep::executable {

class Executable;

/// When one call ran on one device, or how long that device waited at a barrier.
struct Slice {
  const Executable* executable = nullptr;  ///< Null: a barrier.
  std::uint32_t call = 0;
  std::int32_t shard = -1;           ///< The local shard it ran for, or -1.
  std::int32_t depth = 0;            ///< Of bodies around it.
  std::chrono::nanoseconds begin{};  ///< On the steady clock.
  std::chrono::nanoseconds end{};
  std::chrono::nanoseconds inside{};  ///< Spent in the slices right inside it.
};

/// What one device did in one run; used by that device alone. A slice stands behind those inside it.
class Recorder {
 public:
  void set_shard(int shard) { shard_ = shard; }

  void begin() { open_.push_back({now(), {}}); }
  void end(const Executable* executable, std::uint32_t call) {
    const Open ended = open_.back();
    open_.pop_back();
    const std::chrono::nanoseconds at = now();
    if (!open_.empty()) open_.back().inside += at - ended.begin;
    slices_.push_back(
        {executable, call, shard_, static_cast<std::int32_t>(open_.size()), ended.begin, at, ended.inside});
  }

  const std::vector<Slice>& slices() const { return slices_; }

 private:
  struct Open {
    std::chrono::nanoseconds begin{};
    std::chrono::nanoseconds inside{};
  };
  static std::chrono::nanoseconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

  std::vector<Slice> slices_;
  std::vector<Open> open_;
  int shard_ = -1;
};

}  // namespace lockstep::executable
