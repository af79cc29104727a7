#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/backend/communicator.h>
#include <lockstep/error.h>

#include "backends/shared_memory/meeting.h"
#include "backends/shared_memory/segment.h"
#include "backends/shared_memory/stream.h"

namespace lockstep::backend {
namespace shared_memory {
namespace {

class StreamTransfer final : public Transfer {
 public:
  StreamTransfer(Stream& stream, std::shared_ptr<Message> message) : stream_(stream), message_(std::move(message)) {}
  ~StreamTransfer() override { stream_.give_up(*message_); }
  StreamTransfer(const StreamTransfer&) = delete;
  StreamTransfer& operator=(const StreamTransfer&) = delete;

  bool test() override {
    if (!message_->is_done) stream_.advance();
    return message_->is_done;
  }

 private:
  Stream& stream_;
  std::shared_ptr<Message> message_;
};

/// The processes of a job on one host: messages go through rings, windows are read where they lie.
class SharedMemory final : public Communicator {
 public:
  SharedMemory(Job job, File file) : job_(std::move(job)), segment_(std::move(file), job_.size) {
    for (const Channel channel : {Channel::data, Channel::control}) {
      for (int other = 0; other < job_.size; ++other) {
        to_.push_back(std::make_unique<Outgoing>(segment_.ring(channel, job_.rank, other)));
        from_.push_back(std::make_unique<Incoming>(segment_.ring(channel, other, job_.rank)));
      }
    }
  }

  std::string_view name() const override { return "shared_memory"; }
  int rank() const override { return job_.rank; }
  int size() const override { return job_.size; }

  std::unique_ptr<Transfer> start_send(Channel channel, int to, std::span<const std::byte> bytes) override {
    expect_other(to, "send to");
    Stream& stream = *to_[index(channel, to)];
    return std::make_unique<StreamTransfer>(stream,
                                            stream.add({.sent = bytes, .received = {}, .length = bytes.size()}));
  }
  std::unique_ptr<Transfer> start_receive(Channel channel, int from, std::span<std::byte> room) override {
    expect_other(from, "receive from");
    Stream& stream = *from_[index(channel, from)];
    return std::make_unique<StreamTransfer>(stream, stream.add({.sent = {}, .received = room}));
  }
  void abandon() override {}
  bool has_windows() const override { return true; }
  std::span<std::byte> window(int process, int number, std::size_t bytes) override {
    return segment_.window(process, number, bytes);
  }

 private:
  std::size_t index(Channel channel, int other) const {
    return static_cast<std::size_t>(channel) * static_cast<std::size_t>(job_.size) + static_cast<std::size_t>(other);
  }
  void expect_other(int process, const std::string& what) const {
    if (process >= 0 && process < job_.size && process != job_.rank) return;
    throw CommunicatorError("shared_memory: " + what + " process " + std::to_string(process) +
                            ", and this is process " + std::to_string(job_.rank) + " of " + std::to_string(job_.size) +
                            "; give another one from 0 to " + std::to_string(job_.size - 1) + ".");
  }

  Job job_;
  Segment segment_;
  std::vector<std::unique_ptr<Stream>> to_;  ///< By channel and process.
  std::vector<std::unique_ptr<Stream>> from_;
};

std::optional<int> number(const char* name) {
  const char* const text = std::getenv(name);
  int value = 0;
  if (text == nullptr || std::from_chars(text, text + std::strlen(text), value).ec != std::errc()) return std::nullopt;
  return value;
}

/// What Open MPI's launcher says of the job, where all of its processes run on this host.
std::optional<Job> find_job() {
  const std::optional<int> size = number("OMPI_COMM_WORLD_SIZE");
  const std::optional<int> here = number("OMPI_COMM_WORLD_LOCAL_SIZE");
  const std::optional<int> rank = number("OMPI_COMM_WORLD_RANK");
  const char* const space = std::getenv("PMIX_NAMESPACE");
  if (!size || !here || !rank || space == nullptr || *here != *size || *size < 2) return std::nullopt;
  const char* const secret = std::getenv("OMPI_MCA_orte_precondition_transports");  // 128 bits that it draws for a job
  Job job{.name = space, .secret = secret == nullptr ? "" : secret, .rank = *rank, .size = *size};
  for (const char* const name : {"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI2"}) {
    if (const char* const text = std::getenv(name)) job.name += std::string(" ") + text;
  }
  return job;
}

}  // namespace
}  // namespace shared_memory

/// Null but where Open MPI's launcher started several processes, all on this host, and LOCKSTEP_COMMUNICATOR names no
/// other communicator.
std::shared_ptr<Communicator> make_shared_memory_communicator(double seconds) {
  const char* const wanted = std::getenv("LOCKSTEP_COMMUNICATOR");
  if (wanted != nullptr && std::string_view(wanted) != "shared_memory") return nullptr;
  std::optional<shared_memory::Job> job = shared_memory::find_job();
  if (!job) return nullptr;
  shared_memory::File file = shared_memory::share_file(*job, shared_memory::Segment::make, seconds);
  if (!file.is_open()) return nullptr;
  return std::make_shared<shared_memory::SharedMemory>(std::move(*job), std::move(file));
}

}  // namespace lockstep::backend
