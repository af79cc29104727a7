#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include <lockstep/backend/backend.h>

#include "engine/executable/shares.h"
#include "engine/runtime/barrier.h"
#include "engine/runtime/forks.h"

namespace lockstep::runtime {

using namespace backend;

/// D threads that run one task together; the calling thread is number 0, the others wait between tasks. Every worker
/// has entered the given backends (Backend::enter_thread) before its first task.
class Team {
 public:
  /// Throws BackendError where the system has not so many threads.
  Team(int devices, std::vector<std::shared_ptr<const Backend>> backends);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int devices() const { return devices_; }
  Barrier& barrier() { return barrier_; }
  executable::Shares& shares() { return shares_; }

  /// Runs task(d) on every device d and returns when all have. A task that meets others at the barrier must do so on
  /// every device, whatever happens: it keeps its exceptions to itself and hands them to `failed`. The first one is
  /// rethrown here; the team can be used again.
  void run(const std::function<void(int)>& task);

  /// Whether the threads are in another process: this one is a child that was forked from it. Such a team runs nothing.
  bool is_of_parent() const { return born_ != forks(); }

  /// Notes an exception of the running task.
  void failed(std::exception_ptr error) noexcept;
  /// Whether the running task has failed somewhere: the rest of the work is then skipped.
  bool has_failed() const { return has_failed_.load(std::memory_order_acquire); }

 private:
  void work(int device);
  void end();
  void run_on(int device) noexcept;

  const std::uint64_t born_ = forks();
  const int devices_;
  const std::vector<std::shared_ptr<const Backend>> backends_;
  const Waiter waiter_;
  Barrier barrier_;
  Barrier done_;
  executable::Shares shares_;
  const std::function<void(int)>* task_ = nullptr;
  bool for_sink_ = false;  ///< Whether the caller works for a debug sink.
  alignas(64) std::atomic<std::uint32_t> started_{0};
  std::atomic<bool> stop_{false};
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

/// Idle teams of this process. Each running call has one to itself; it returns to the pool with the lease.
class TeamLease {
 public:
  /// A team of `devices` threads whose workers have entered `backends`.
  TeamLease(int devices, const std::vector<std::shared_ptr<const Backend>>& backends);
  /// One that some call has left idle, of at most so many threads and at least two, for what any thread can do; or null.
  static std::unique_ptr<TeamLease> of_idle(int most_devices);
  ~TeamLease();
  TeamLease(const TeamLease&) = delete;
  TeamLease& operator=(const TeamLease&) = delete;

  Team& team() { return *team_; }

 private:
  TeamLease(std::unique_ptr<Team> team, std::size_t key);

  std::unique_ptr<Team> team_;
  std::size_t key_;
};

}  // namespace lockstep::runtime
