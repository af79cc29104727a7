#include "engine/runtime/team.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <lockstep/error.h>

#include "engine/core/process_end.h"
#include "engine/ir/backend_chain.h"
#include "engine/ir/effects.h"

namespace lockstep::runtime {

Team::Team(int devices, std::vector<std::shared_ptr<const Backend>> backends)
    : devices_(devices),
      backends_(std::move(backends)),
      waiter_(devices),
      barrier_(devices),
      done_(devices),
      shares_(devices) {
  threads_.reserve(static_cast<std::size_t>(devices) - 1);
  try {
    for (int d = 1; d < devices; ++d) threads_.emplace_back([this, d] { work(d); });
  } catch (const std::system_error& error) {
    const std::size_t made = threads_.size();
    end();
    throw BackendError("run: " + std::to_string(devices) + " devices need " + std::to_string(devices - 1) +
                       " threads, and the system gives " + std::to_string(made) + " (" + error.code().message() +
                       "); take fewer devices, or raise the limit of processes (ulimit -u)");
  } catch (...) {
    end();
    throw;
  }
}

Team::~Team() {
  if (is_of_parent()) {
    // There is nothing here to join: whatever is done to the handle of a thread that fork left behind is undefined.
    static_cast<void>(std::make_unique<std::vector<std::thread>>(std::move(threads_)).release());
    return;
  }
  end();
}

void Team::end() {
  stop_.store(true, std::memory_order_release);
  started_.fetch_add(1, std::memory_order_acq_rel);
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::work(int device) {
  std::optional<ir::EnteredThread> entered;
  std::exception_ptr refused;
  try {
    entered.emplace(backends_);
  } catch (...) {
    refused = std::current_exception();
  }
  for (std::uint32_t seen = 0;; ++seen) {
    waiter_.wait(started_, seen);
    if (stop_.load(std::memory_order_acquire)) return;
    if (refused) failed(refused);
    run_on(device);
    done_.arrive_and_wait();
  }
}

void Team::run_on(int device) noexcept {
  try {
    const ir::InDebugSink for_sink(for_sink_);
    (*task_)(device);
  } catch (...) {
    failed(std::current_exception());
  }
}

void Team::run(const std::function<void(int)>& task) {
  const WithWorkers workers(devices_ > 1);
  task_ = &task;
  for_sink_ = ir::in_debug_sink();
  has_failed_.store(false, std::memory_order_relaxed);
  error_ = nullptr;
  if (devices_ > 1) {
    started_.fetch_add(1, std::memory_order_acq_rel);
    started_.notify_all();
  }
  run_on(0);
  if (is_of_parent()) {
    failed(std::make_exception_ptr(MeshError(
        "run: a callback forked the process while it ran on " + std::to_string(devices_) +
        " devices, whose threads the child lacks; expected fork before or behind the call; leave the child by _exit or "
        "exec")));
  } else if (devices_ > 1) {
    done_.arrive_and_wait();
  }
  task_ = nullptr;
  if (has_failed_.load(std::memory_order_acquire)) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Team::failed(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
  has_failed_.store(true, std::memory_order_release);
}

namespace {

/// Idle teams by size and backends; their workers sleep. Taking and putting locks nothing. A slot is for teams of one key
/// for ever; where all are taken, a team that comes back ends.
class Pool {
 public:
  std::unique_ptr<Team> take(std::size_t key) {
    for (Slot& slot : slots_) {
      if (slot.key.load(std::memory_order_acquire) != key) continue;
      std::unique_ptr<Team> team(slot.team.exchange(nullptr, std::memory_order_acq_rel));
      if (team != nullptr && !team->is_of_parent()) return team;
    }
    return nullptr;
  }

  /// Of any key, with how to put it back.
  std::pair<std::unique_ptr<Team>, std::size_t> take_any(int most_devices) {
    for (Slot& slot : slots_) {
      const std::size_t key = slot.key.load(std::memory_order_acquire);
      if (key == 0) break;
      std::unique_ptr<Team> team(slot.team.exchange(nullptr, std::memory_order_acq_rel));
      if (team == nullptr || team->is_of_parent()) continue;
      if (team->devices() > 1 && team->devices() <= most_devices) return {std::move(team), key};
      put(key, std::move(team));
    }
    return {};
  }

  void put(std::size_t key, std::unique_ptr<Team> team) {
    if (team->is_of_parent()) return;
    for (Slot& slot : slots_) {
      std::size_t owner = 0;
      slot.key.compare_exchange_strong(owner, key, std::memory_order_acq_rel);
      if (owner != 0 && owner != key) continue;
      Team* empty = nullptr;
      if (!slot.team.compare_exchange_strong(empty, team.get(), std::memory_order_acq_rel)) continue;
      static_cast<void>(team.release());
      return;
    }
  }

  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() {
    for (Slot& slot : slots_) delete slot.team.load(std::memory_order_acquire);
  }

 private:
  struct Slot {
    std::atomic<std::size_t> key{0};
    std::atomic<Team*> team{nullptr};
  };
  std::array<Slot, 64> slots_;
};

Pool& pool() {
  static Pool instance;
  return instance;
}

std::size_t key_of(int devices, const std::vector<std::shared_ptr<const Backend>>& backends) {
  std::size_t key = static_cast<std::size_t>(devices);
  for (const auto& backend : backends) key = key * 1099511628211ULL + std::hash<std::string_view>{}(backend->name());
  return key;
}

}  // namespace

TeamLease::TeamLease(int devices, const std::vector<std::shared_ptr<const Backend>>& backends)
    : team_(nullptr), key_(key_of(devices, backends)) {
  team_ = pool().take(key_);
  if (team_ == nullptr) team_ = std::make_unique<Team>(devices, backends);
}

TeamLease::TeamLease(std::unique_ptr<Team> team, std::size_t key) : team_(std::move(team)), key_(key) {}

std::unique_ptr<TeamLease> TeamLease::of_idle(int most_devices) {
  auto [team, key] = pool().take_any(most_devices);
  if (team == nullptr) return nullptr;
  return std::unique_ptr<TeamLease>(new TeamLease(std::move(team), key));
}

TeamLease::~TeamLease() { pool().put(key_, std::move(team_)); }

}  // namespace lockstep::runtime
