#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <future>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <mpi.h>

#include <lockstep/backend/communicator.h>
#include <lockstep/error.h>

#include "backends/mpi/presence.h"

namespace lockstep::backend {
namespace {

void check_mpi(int code, const char* what) {
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

bool is_finalized() {
  int finalized = 0;
  return MPI_Finalized(&finalized) != MPI_SUCCESS || finalized != 0;
}

/// A message in parts of at most `longest` bytes, since MPI counts them in an int.
class MpiTransfer final : public Transfer {
 public:
  static constexpr std::size_t longest = std::size_t{1} << 30;
  static_assert(longest <= static_cast<std::size_t>(std::numeric_limits<int>::max()));

  /// Calls start(offset, count, &request) for each part.
  template <class Start>
  MpiTransfer(std::size_t bytes, bool receives, const Start& start) : receives_(receives) {
    std::size_t done = 0;
    do {
      const std::size_t part = std::min(longest, bytes - done);
      requests_.push_back(MPI_REQUEST_NULL);
      start(done, static_cast<int>(part), &requests_.back());
      done += part;
    } while (done < bytes);
  }
  ~MpiTransfer() override {
    if (is_finalized()) return;
    for (MPI_Request& request : requests_) {
      if (request == MPI_REQUEST_NULL) continue;
      if (receives_) MPI_Cancel(&request);  // a send that the other one may read is never called back
      MPI_Request_free(&request);
    }
  }
  MpiTransfer(const MpiTransfer&) = delete;
  MpiTransfer& operator=(const MpiTransfer&) = delete;

  bool test() override {
    while (first_ < requests_.size()) {
      int done = 0;
      check_mpi(MPI_Test(&requests_[first_], &done, MPI_STATUS_IGNORE), "MPI_Test");
      if (done == 0) return false;
      ++first_;
    }
    return true;
  }

 private:
  std::vector<MPI_Request> requests_;
  std::size_t first_ = 0;  ///< That is not done.
  bool receives_;
};

/// The start of all processes, which waits for each of them, but not for ever. A launcher ends the job where a process
/// fails: this is for one that ends well before it has come, hangs, or does something else.
class Start {
 public:
  explicit Start(double seconds) : seconds_(seconds) {}

  /// Asks is_done(pause), which may wait so long, until it is.
  template <class IsDone>
  void wait(const IsDone& is_done) {
    constexpr std::chrono::milliseconds shortest{1}, longest{250};
    for (std::chrono::milliseconds pause = shortest; !is_done(pause); pause = std::min(2 * pause, longest)) {
      if (pause == longest) presence_.look();
      // What was stopped with the others, as by a launcher, has not waited.
      const Clock::time_point now = Clock::now();
      waited_ += std::min<std::chrono::duration<double>>(now - std::exchange(last_, now), 4 * longest);
      if (waited_.count() < seconds_) continue;
      std::ostringstream limit;
      limit << seconds_;
      throw CommunicatorError("mpi: " + presence_.missing() + " did not connect within " + limit.str() +
                              " s; see whether it has ended, what it printed, and whether its main connects (world(), "
                              "or a map over all processes) as the others do, or give it longer: "
                              "LOCKSTEP_COLLECTIVE_TIMEOUT.");
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  mpi::Presence presence_;
  double seconds_;
  Clock::time_point last_ = Clock::now();
  std::chrono::duration<double> waited_{0};
};

/// MPI_Init waits for all processes of the job, and for ever: so a thread calls it, which is given up where one does not
/// come. The level of threads that MPI provides.
int init_in_time(Start& start) {
  struct Started {
    int outcome = MPI_SUCCESS;
    int provided = 0;
  };
  auto promised = std::make_shared<std::promise<Started>>();
  std::future<Started> started = promised->get_future();
  std::thread([promised] {
    Started done;
    done.outcome = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &done.provided);
    promised->set_value(done);
  }).detach();
  start.wait([&](auto pause) { return started.wait_for(pause) == std::future_status::ready; });
  const Started done = started.get();
  check_mpi(done.outcome, "MPI_Init_thread");
  return done.provided;
}

/// Waits until all processes have come here: a program that has begun MPI itself may have one that never does.
void meet_all(Start& start) {
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
  start.wait([&](auto pause) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done == 0) std::this_thread::sleep_for(pause);
    return done != 0;
  });
}

/// The processes of MPI_COMM_WORLD.
class Mpi final : public Communicator {
 public:
  explicit Mpi(double seconds) {
    Start start(seconds);
    int initialized = 0;
    check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
    if (initialized == 0) {
      const int provided = init_in_time(start);
      owns_ = true;
      if (provided < MPI_THREAD_SERIALIZED) {
        throw CommunicatorError("mpi: this MPI lets only the main thread communicate; build it with thread support.");
      }
    }
    meet_all(start);
    for (MPI_Comm& channel : channels_) {
      check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &channel), "MPI_Comm_dup");
      check_mpi(MPI_Comm_set_errhandler(channel, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    check_mpi(MPI_Comm_rank(channels_[0], &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(channels_[0], &size_), "MPI_Comm_size");
  }
  ~Mpi() override {
    if (is_finalized() || abandoned_) return;  // MPI_Finalize waits for all processes
    for (MPI_Comm& channel : channels_) MPI_Comm_free(&channel);
    if (owns_) MPI_Finalize();
  }
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  std::string_view name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Transfer> start_send(Channel channel, int to, std::span<const std::byte> bytes) override {
    expect_other(to, "send to");
    const auto start = [&](std::size_t offset, int count, MPI_Request* request) {
      check_mpi(MPI_Isend(bytes.data() + offset, count, MPI_BYTE, to, 0, of(channel), request), "MPI_Isend");
    };
    return std::make_unique<MpiTransfer>(bytes.size(), false, start);
  }
  std::unique_ptr<Transfer> start_receive(Channel channel, int from, std::span<std::byte> room) override {
    expect_other(from, "receive from");
    const auto start = [&](std::size_t offset, int count, MPI_Request* request) {
      check_mpi(MPI_Irecv(room.data() + offset, count, MPI_BYTE, from, 0, of(channel), request), "MPI_Irecv");
    };
    return std::make_unique<MpiTransfer>(room.size(), true, start);
  }
  /// A program that has begun MPI itself calls it where it likes, and may end it.
  bool may_have_a_thread() const override { return owns_; }
  void abandon() override { abandoned_ = true; }

 private:
  MPI_Comm of(Channel channel) const { return channels_[static_cast<std::size_t>(channel)]; }
  void expect_other(int process, const std::string& what) const {
    if (is_finalized()) throw CommunicatorError("mpi: MPI_Finalize was called; communicate before it.");
    if (process >= 0 && process < size_ && process != rank_) return;
    throw CommunicatorError("mpi: " + what + " process " + std::to_string(process) + ", and this is process " +
                            std::to_string(rank_) + " of " + std::to_string(size_) + "; give another one from 0 to " +
                            std::to_string(size_ - 1) + ".");
  }

  std::array<MPI_Comm, 2> channels_ = {MPI_COMM_NULL, MPI_COMM_NULL};
  bool owns_ = false;
  bool abandoned_ = false;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace

/// Null without a launcher: MPI_Init is called only where mpirun (or srun with PMI) started this process.
std::shared_ptr<Communicator> make_mpi_communicator(double seconds) {
  if (!has_launcher()) return nullptr;
  return std::make_shared<Mpi>(seconds);
}

}  // namespace lockstep::backend
