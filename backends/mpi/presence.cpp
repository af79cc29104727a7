// The sockets by which processes of a host see which of them have come.
#include "backends/mpi/presence.h"

#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace lockstep::backend::mpi {
namespace {

/// The first of these variables that holds a number, or `otherwise`.
int number_in(std::initializer_list<const char*> names, int otherwise) {
  for (const char* name : names) {
    const char* const text = std::getenv(name);
    int value = 0;
    if (text != nullptr && std::from_chars(text, text + std::strlen(text), value).ec == std::errc()) return value;
  }
  return otherwise;
}

/// What all processes of the job have in their environment, and those of no other job.
std::string job_in_environment() {
  std::string job;
  for (const char* name : {"PMIX_NAMESPACE", "PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI2",
                           "SLURM_JOB_ID", "SLURM_STEP_ID", "PMI_JOBID", "OMPI_MCA_orte_precondition_transports"}) {
    if (const char* const text = std::getenv(name)) job += std::string(text) + " ";
  }
  return job;
}

struct Address {
  explicit Address(const std::string& name) {
    name.copy(value.sun_path + 1, sizeof(value.sun_path) - 2);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&value); }

  sockaddr_un value{.sun_family = AF_UNIX, .sun_path = {}};  // a name that begins with a zero is in no folder
  socklen_t length = 0;
};

int new_socket() { return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

}  // namespace

Presence::Presence()
    : job_(job_in_environment()),
      rank_(number_in({"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}, -1)),
      size_(number_in({"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}, 0)),
      here_(number_in({"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"}, 0)) {
  if (rank_ < 0 || rank_ >= size_) job_.clear();
  if (job_.empty()) return;
  has_come_.resize(static_cast<std::size_t>(size_));
  has_come_[static_cast<std::size_t>(rank_)] = true;
  socket_ = new_socket();
  const Address address(name_of(rank_));
  if (socket_ >= 0 && ::bind(socket_, address.get(), address.length) == 0) {
    static_cast<void>(::listen(socket_, SOMAXCONN));
  }
}

Presence::~Presence() {
  if (socket_ >= 0) ::close(socket_);
}

std::string Presence::name_of(int rank) const {
  return "lockstep-start-" + std::to_string(geteuid()) + "-" + std::to_string(std::hash<std::string>{}(job_)) + "-" +
         std::to_string(rank);
}

void Presence::look() {
  for (int rank = 0; rank < size_ && !job_.empty(); ++rank) {
    if (has_come_[static_cast<std::size_t>(rank)]) continue;
    const Address address(name_of(rank));
    const int socket = new_socket();
    if (socket < 0) return;
    has_come_[static_cast<std::size_t>(rank)] = ::connect(socket, address.get(), address.length) == 0;
    ::close(socket);
  }
}

std::string Presence::missing() const {
  if (job_.empty()) return "a process of this job";
  std::string absent, present;
  int come = 0;
  for (int rank = 0; rank < size_; ++rank) {
    const bool is_here = has_come_[static_cast<std::size_t>(rank)];
    std::string& list = is_here ? present : absent;
    list += (list.empty() ? "" : ", ") + std::to_string(rank);
    come += is_here ? 1 : 0;
  }
  const std::string of_all = " of " + std::to_string(size_);
  if (come == size_) return "all" + of_all.substr(3) + " processes came, but MPI";
  if (here_ == size_) return (size_ - come == 1 ? "process " : "processes ") + absent + of_all;
  if (come >= here_) return "a process" + of_all + " on another host";
  return std::to_string(here_ - come) + " of the " + std::to_string(here_) + " processes on this host (" + present +
         " came)";
}

}  // namespace lockstep::backend::mpi
