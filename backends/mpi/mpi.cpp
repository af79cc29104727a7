#include <array>
#include <cstdlib>
#include <limits>
#include <memory>
#include <string>

#include <mpi.h>

#include <lockstep/backend/communicator.h>
#include <lockstep/error.h>

namespace lockstep::backend {
namespace {

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw CommunicatorError(std::string("mpi: ") + what + " failed: " + text.data() +
                          "; see whether all processes are alive and run the same program.");
}

bool has_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  return false;
}

/// The processes of MPI_COMM_WORLD.
class Mpi final : public Communicator {
 public:
  Mpi() {
    int initialized = 0;
    check(MPI_Initialized(&initialized), "MPI_Initialized");
    if (initialized == 0) {
      int provided = 0;
      check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
      owns_ = true;
      if (provided < MPI_THREAD_SERIALIZED) {
        throw CommunicatorError("mpi: this MPI lets only the main thread communicate; build it with thread support.");
      }
    }
    check(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  }
  ~Mpi() override {
    int finalized = 0;
    if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0) return;
    MPI_Comm_free(&communicator_);
    if (owns_) MPI_Finalize();
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { check(MPI_Barrier(communicator_), "MPI_Barrier"); }

  void all_gather(std::span<const std::byte> sent, std::span<std::byte> received) override {
    expect(received.size(), sent.size() * static_cast<std::size_t>(size_), __func__);
    const int n = count(sent.size(), __func__);
    check(MPI_Allgather(sent.data(), n, MPI_BYTE, received.data(), n, MPI_BYTE, communicator_), "MPI_Allgather");
  }
  void all_to_all(std::span<const std::byte> sent, std::span<std::byte> received) override {
    expect(received.size(), sent.size(), __func__);
    if (sent.size() % static_cast<std::size_t>(size_) != 0) {
      throw CommunicatorError("mpi: all_to_all of " + std::to_string(sent.size()) + " bytes to " +
                              std::to_string(size_) + " processes; give every process a block of equal size.");
    }
    const int n = count(sent.size() / static_cast<std::size_t>(size_), __func__);
    check(MPI_Alltoall(sent.data(), n, MPI_BYTE, received.data(), n, MPI_BYTE, communicator_), "MPI_Alltoall");
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    if (root < 0 || root >= size_) {
      throw CommunicatorError("mpi: broadcast from process " + std::to_string(root) + " of " + std::to_string(size_) +
                              "; give one from 0 to " + std::to_string(size_ - 1) + ".");
    }
    check(MPI_Bcast(bytes.data(), count(bytes.size(), "broadcast"), MPI_BYTE, root, communicator_), "MPI_Bcast");
  }

 private:
  static void expect(std::size_t given, std::size_t expected, const std::string& op) {
    if (given == expected) return;
    throw CommunicatorError("mpi: " + op + " has room for " + std::to_string(given) + " bytes, expected " +
                            std::to_string(expected) + "; size the buffer for all processes.");
  }
  static int count(std::size_t bytes, const std::string& op) {
    if (bytes <= static_cast<std::size_t>(std::numeric_limits<int>::max())) return static_cast<int>(bytes);
    throw CommunicatorError("mpi: " + op + " of " + std::to_string(bytes) +
                            " bytes per process; MPI counts to 2^31 - 1, split the array.");
  }

  MPI_Comm communicator_ = MPI_COMM_NULL;
  bool owns_ = false;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

/// Null without a launcher: MPI_Init is called only where mpirun (or srun with PMI) started this process.
std::shared_ptr<Communicator> make_mpi_communicator() {
  if (!has_launcher()) return nullptr;
  return std::make_shared<Mpi>();
}

}  // namespace lockstep::backend
