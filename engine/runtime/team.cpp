#include "engine/runtime/team.h"

#include <map>
#include <utility>

namespace lockstep::runtime {

Team::Team(int devices, std::vector<std::shared_ptr<const Backend>> backends)
    : devices_(devices), backends_(std::move(backends)), waiter_(devices), barrier_(devices), done_(devices) {
  for (int d = 1; d < devices; ++d) threads_.emplace_back([this, d] { work(d); });
}

Team::~Team() {
  stop_.store(true, std::memory_order_release);
  started_.fetch_add(1, std::memory_order_acq_rel);
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Team::work(int device) {
  std::vector<std::shared_ptr<void>> settings;
  std::exception_ptr refused;
  try {
    for (const auto& backend : backends_) settings.push_back(backend->enter_thread());
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
    (*task_)(device);
  } catch (...) {
    failed(std::current_exception());
  }
}

void Team::run(const std::function<void(int)>& task) {
  task_ = &task;
  has_failed_.store(false, std::memory_order_relaxed);
  error_ = nullptr;
  if (devices_ > 1) {
    started_.fetch_add(1, std::memory_order_acq_rel);
    started_.notify_all();
  }
  run_on(0);
  if (devices_ > 1) done_.arrive_and_wait();
  task_ = nullptr;
  if (has_failed_.load(std::memory_order_acquire)) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Team::failed(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (error_ == nullptr) error_ = std::move(error);
  has_failed_.store(true, std::memory_order_release);
}

namespace {

/// Teams by size and backends. Workers sleep while a team is idle.
class Pool {
 public:
  std::unique_ptr<Team> take(std::size_t key) {
    const std::lock_guard lock(mutex_);
    auto& idle = idle_[key];
    if (idle.empty()) return nullptr;
    std::unique_ptr<Team> team = std::move(idle.back());
    idle.pop_back();
    return team;
  }
  void put(std::size_t key, std::unique_ptr<Team> team) {
    const std::lock_guard lock(mutex_);
    idle_[key].push_back(std::move(team));
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::vector<std::unique_ptr<Team>>> idle_;
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

TeamLease::~TeamLease() { pool().put(key_, std::move(team_)); }

}  // namespace lockstep::runtime
