#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <span>

#include <lockstep/backend/backend.h>

#include "engine/executable/executable.h"
#include "engine/executable/recorder.h"
#include "engine/executable/shares.h"

namespace lockstep::executable {

using namespace backend;

/// One device among those that run an executable together.
class Crew {
 public:
  explicit Crew(int device, Recorder* recorder = nullptr) : device_(device), recorder_(recorder) {}
  virtual ~Crew() = default;
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int device() const { return device_; }
  /// Told what runs, or null.
  Recorder* recorder() const { return recorder_; }
  /// Waits for all others.
  virtual void meet() = 0;
  /// Whether the call has failed somewhere: the rest of the work is then skipped, but for the meetings.
  virtual bool has_failed() const = 0;
  /// What is left of the devices' shares, or null for one alone.
  virtual Shares* shares() = 0;
  /// Notes the exception that this device's work ended with.
  virtual void failed(std::exception_ptr error) = 0;

  void count_collectives(int n) { collectives_ += n; }
  int collectives() const { return collectives_; }

 private:
  int device_;
  Recorder* recorder_;
  int collectives_ = 0;
};

/// The crew of one: exceptions go straight to the caller.
class Alone final : public Crew {
 public:
  explicit Alone(Recorder* recorder = nullptr) : Crew(0, recorder) {}
  void meet() override {}
  bool has_failed() const override { return false; }
  Shares* shares() override { return nullptr; }
  void failed(std::exception_ptr error) override { std::rethrow_exception(error); }
};

/// One device's walk through the steps of an executable. `views` are a copy of the executable's, `bases` the addresses
/// of what `base` names; `passed` counts the shards that have come to what runs behind them, for all devices: 0 as they
/// begin. All stay the caller's. Allocates nothing.
class Walker {
 public:
  Walker(const Executable& executable, ArrayView* views, std::byte** bases, Crew& crew,
         std::span<std::atomic<int>> passed = {})
      : executable_(executable), views_(views), bases_(bases), crew_(crew), passed_(passed) {}

  /// All steps once. Every device of the crew must do the same.
  void run();

 private:
  void run_step(const Step& step);
  void run_region(const Step& step);
  void run_shard(const Step& step, std::size_t shard);
  void run_once(const BehindShards& once);
  void run_lanes(const Step& step);
  template <class Run>
  void run_shares(const Step& step, std::uint32_t items, Run run);
  void run_together(const Step& step);
  void run_item(const Lane& lane, std::int64_t item);
  void run_tile(const Chain& chain, std::int64_t tile);
  void run_calls(CallRange range, std::uint64_t tile, std::size_t shard);
  void run_recorded(CallRange range, std::uint64_t tile, std::size_t shard, Recorder& recorder);
  void meet();
  KernelArguments bind(const Call& call, std::uint64_t tile, std::size_t shard);

  const Executable& executable_;
  ArrayView* views_;
  std::byte** bases_;
  Crew& crew_;
  std::span<std::atomic<int>> passed_;
};

}  // namespace lockstep::executable
