#include <memory>
#include <string>

#include <lockstep/backend/communicator.h>
#include <lockstep/error.h>

namespace lockstep::backend {
namespace {

/// A process alone, which has nobody to send to.
class SingleProcess final : public Communicator {
 public:
  std::string_view name() const override { return "single_process"; }
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::unique_ptr<Transfer> start_send(Channel /*channel*/, int to, std::span<const std::byte> /*bytes*/) override {
    refuse("a message to process " + std::to_string(to));
  }
  std::unique_ptr<Transfer> start_receive(Channel /*channel*/, int from, std::span<std::byte> /*room*/) override {
    refuse("a message from process " + std::to_string(from));
  }
  void abandon() override {}

 private:
  [[noreturn]] static void refuse(const std::string& message) {
    throw CommunicatorError("single_process: " + message +
                            ", but there is process 0 alone; launch more processes with mpirun.");
  }
};

}  // namespace

std::shared_ptr<Communicator> make_single_process_communicator(double) { return std::make_shared<SingleProcess>(); }

}  // namespace lockstep::backend
