#pragma once

#include <barrier>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/backend/communicator.h>

// Processes played by threads: what the code between processes does, without a launcher.
namespace lockstep::tests {

class ThreadProcesses {
 public:
  explicit ThreadProcesses(int count) : sent_(static_cast<std::size_t>(count)), barrier_(count) {}

  int size() const { return static_cast<int>(sent_.size()); }
  std::vector<std::span<const std::byte>>& sent() { return sent_; }
  void meet() { barrier_.arrive_and_wait(); }

 private:
  std::vector<std::span<const std::byte>> sent_;
  std::barrier<> barrier_;
};

class ThreadCommunicator final : public backend::Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadProcesses> all, int rank) : all_(std::move(all)), rank_(rank) {}

  std::string_view name() const override { return "threads"; }
  int rank() const override { return rank_; }
  int size() const override { return all_->size(); }
  void barrier() override { all_->meet(); }
  void all_gather(std::span<const std::byte> sent, std::span<std::byte> received) override {
    show(sent);
    for (std::size_t p = 0; p < all_->sent().size(); ++p) {
      std::memcpy(received.data() + p * sent.size(), all_->sent()[p].data(), sent.size());
    }
    all_->meet();
  }
  void all_to_all(std::span<const std::byte> sent, std::span<std::byte> received) override {
    show(sent);
    const std::size_t block = sent.size() / all_->sent().size();
    for (std::size_t p = 0; p < all_->sent().size(); ++p) {
      std::memcpy(received.data() + p * block, all_->sent()[p].data() + static_cast<std::size_t>(rank_) * block, block);
    }
    all_->meet();
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    show(bytes);
    const auto from = all_->sent()[static_cast<std::size_t>(root)];
    if (rank_ != root) std::memcpy(bytes.data(), from.data(), bytes.size());
    all_->meet();
  }

 private:
  void show(std::span<const std::byte> sent) {
    all_->sent()[static_cast<std::size_t>(rank_)] = sent;
    all_->meet();
  }

  std::shared_ptr<ThreadProcesses> all_;
  int rank_;
};

/// Runs `body` once for each process, all at the same time.
inline void run_processes(int count, const std::function<void(const std::shared_ptr<backend::Communicator>&)>& body) {
  auto all = std::make_shared<ThreadProcesses>(count);
  std::vector<std::thread> threads;
  for (int p = 0; p < count; ++p) {
    threads.emplace_back([&, p] { body(std::make_shared<ThreadCommunicator>(all, p)); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace lockstep::tests
