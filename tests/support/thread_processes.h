#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <lockstep/backend/communicator.h>
#include <lockstep/processes.h>

// Processes played by threads: what the code between processes does, without a launcher.
namespace lockstep::tests {

using backend::Channel;
using backend::Transfer;

/// While it lives, a process is stopped to the others: nothing that they send arrives there.
class StoppedProcess {
 public:
  explicit StoppedProcess(int rank) { which() = rank; }
  ~StoppedProcess() { which() = -1; }
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;
  static bool is(int rank) { return which() == rank; }

 private:
  static std::atomic<int>& which() {
    static std::atomic<int> rank = -1;
    return rank;
  }
};

/// Messages by channel, sender and receiver, and windows, where there are such.
class ThreadMail {
 public:
  explicit ThreadMail(int size, bool has_windows = false)
      : size_(size), has_windows_(has_windows), sent_bytes_(static_cast<std::size_t>(size)) {}
  int size() const { return size_; }
  /// How many processes did not wait for the others at their end.
  std::atomic<int> abandoned = 0;
  bool has_windows() const { return has_windows_; }

  /// Where more is asked for than ever, it lies elsewhere and what was there stays to be read by who still does.
  std::span<std::byte> window(int process, int number, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto& made = windows_[{process, number}];
    if (made.empty() || made.back().size() < bytes) made.emplace_back(bytes);
    return std::span(made.back()).first(bytes);
  }

  void put(Channel channel, int from, int to, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    messages_[{channel, from, to}].emplace_back(bytes.begin(), bytes.end());
    sent_bytes_[static_cast<std::size_t>(from)] += bytes.size();
  }
  /// What the process has sent, of all channels.
  std::size_t sent_bytes(int from) const {
    const std::lock_guard lock(mutex_);
    return sent_bytes_[static_cast<std::size_t>(from)];
  }
  /// Who receives from there next: its place in the queue.
  std::uint64_t wait_in_line(Channel channel, int from, int to) {
    const std::lock_guard lock(mutex_);
    Line& line = lines_[{channel, from, to}];
    line.waiting.push_back(++line.last);
    return line.last;
  }
  void leave_line(Channel channel, int from, int to, std::uint64_t place) {
    const std::lock_guard lock(mutex_);
    std::erase(lines_[{channel, from, to}].waiting, place);
  }
  bool take(Channel channel, int from, int to, std::uint64_t place, std::span<std::byte> room) {
    const std::lock_guard lock(mutex_);
    auto& messages = messages_[{channel, from, to}];
    Line& line = lines_[{channel, from, to}];
    if (messages.empty() || line.waiting.front() != place) return false;
    const std::vector<std::byte>& bytes = messages.front();
    if (!bytes.empty()) std::memcpy(room.data(), bytes.data(), bytes.size());
    messages.pop_front();
    line.waiting.pop_front();
    return true;
  }

 private:
  struct Line {
    std::uint64_t last = 0;
    std::deque<std::uint64_t> waiting;
  };

  int size_;
  bool has_windows_;
  mutable std::mutex mutex_;
  std::vector<std::size_t> sent_bytes_;
  std::map<std::tuple<Channel, int, int>, Line> lines_;
  std::map<std::pair<int, int>, std::list<std::vector<std::byte>>> windows_;
  std::map<std::tuple<Channel, int, int>, std::deque<std::vector<std::byte>>> messages_;
};

class ThreadCommunicator : public backend::Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<ThreadMail> mail, int rank) : mail_(std::move(mail)), rank_(rank) {}

  std::string_view name() const override { return "threads"; }
  int rank() const override { return rank_; }
  int size() const override { return mail_->size(); }
  std::unique_ptr<Transfer> start_send(Channel channel, int to, std::span<const std::byte> bytes) override {
    mail_->put(channel, rank_, to, bytes);
    return std::make_unique<Sent>();
  }
  std::unique_ptr<Transfer> start_receive(Channel channel, int from, std::span<std::byte> room) override {
    return std::make_unique<Received>(mail_, channel, from, rank_, room);
  }
  void abandon() override { ++mail_->abandoned; }
  bool has_windows() const override { return mail_->has_windows(); }
  std::span<std::byte> window(int process, int number, std::size_t bytes) override {
    return has_windows() ? mail_->window(process, number, bytes) : std::span<std::byte>{};
  }

 private:
  struct Sent final : Transfer {
    bool test() override { return true; }
  };
  struct Received final : Transfer {
    Received(std::shared_ptr<ThreadMail> from_mail, Channel of, int sender, int receiver, std::span<std::byte> into)
        : mail(std::move(from_mail)),
          channel(of),
          from(sender),
          to(receiver),
          place(mail->wait_in_line(of, sender, receiver)),
          room(into) {}
    ~Received() override {
      if (!done) mail->leave_line(channel, from, to, place);
    }
    Received(const Received&) = delete;
    Received& operator=(const Received&) = delete;
    bool test() override {
      return done = done || (!StoppedProcess::is(to) && mail->take(channel, from, to, place, room));
    }

    std::shared_ptr<ThreadMail> mail;
    Channel channel;
    int from, to;
    std::uint64_t place;
    std::span<std::byte> room;
    bool done = false;
  };

  std::shared_ptr<ThreadMail> mail_;
  int rank_;
};

/// Runs `body` once for each process of `mail`, all at the same time. `options` may depend on the process. Returns how
/// many did not wait for the others at their end.
inline int run_processes(
    const std::shared_ptr<ThreadMail>& mail, const std::function<void(const std::shared_ptr<Processes>&)>& body,
    const std::function<ProcessOptions(int)>& options = [](int) { return ProcessOptions(); }) {
  std::vector<std::thread> threads;
  for (int p = 0; p < mail->size(); ++p) {
    threads.emplace_back([&, p] {
      const auto processes = std::make_shared<Processes>(std::make_shared<ThreadCommunicator>(mail, p), options(p));
      body(processes);
      processes->end();  // compiled functions that are kept hold it longer
    });
  }
  for (std::thread& thread : threads) thread.join();
  return mail->abandoned;
}
inline int run_processes(
    int count, const std::function<void(const std::shared_ptr<Processes>&)>& body,
    const std::function<ProcessOptions(int)>& options = [](int) { return ProcessOptions(); },
    bool has_windows = false) {
  return run_processes(std::make_shared<ThreadMail>(count, has_windows), body, options);
}

/// The texts of what `body` throws in each process; empty where it throws nothing.
inline std::vector<std::string> errors_of_processes(
    int count, const std::function<void(const std::shared_ptr<Processes>&)>& body,
    const std::function<ProcessOptions(int)>& options = [](int) { return ProcessOptions(); }) {
  std::vector<std::string> texts(static_cast<std::size_t>(count));
  run_processes(
      count,
      [&](const std::shared_ptr<Processes>& processes) {
        try {
          body(processes);
        } catch (const std::exception& error) {
          texts[static_cast<std::size_t>(processes->rank())] = error.what();
          processes->fail(error.what());
        }
      },
      options);
  return texts;
}

}  // namespace lockstep::tests
