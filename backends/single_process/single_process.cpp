#include <cstring>
#include <memory>

#include <lockstep/backend/communicator.h>
#include <lockstep/error.h>

namespace lockstep::backend {
namespace {

/// A process alone: what it sends, it receives.
class SingleProcess final : public Communicator {
 public:
  std::string_view name() const override { return "single_process"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  void all_gather(std::span<const std::byte> sent, std::span<std::byte> received) override { copy(sent, received); }
  void all_to_all(std::span<const std::byte> sent, std::span<std::byte> received) override { copy(sent, received); }
  void broadcast(std::span<std::byte> /*bytes*/, int root) override {
    if (root != 0) {
      throw CommunicatorError("single_process: broadcast from process " + std::to_string(root) +
                              ", but there is process 0 alone; launch more processes with mpirun.");
    }
  }

 private:
  static void copy(std::span<const std::byte> sent, std::span<std::byte> received) {
    if (sent.size() != received.size()) {
      throw CommunicatorError("single_process: " + std::to_string(sent.size()) + " bytes sent, room for " +
                              std::to_string(received.size()) + "; both must be equal for one process.");
    }
    if (!sent.empty()) std::memcpy(received.data(), sent.data(), sent.size());
  }
};

}  // namespace

std::shared_ptr<Communicator> make_single_process_communicator() { return std::make_shared<SingleProcess>(); }

}  // namespace lockstep::backend
