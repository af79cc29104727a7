#include "backends/shared_memory/segment.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/error.h>

namespace lockstep::backend::shared_memory {
namespace {

constexpr std::size_t page = 4096;
/// The room of a ring, by channel.
constexpr std::array<std::size_t, 2> capacity = {std::size_t{128} << 10, std::size_t{8} << 10};
constexpr std::size_t ring_bytes(Channel channel) { return page + capacity.at(static_cast<std::size_t>(channel)); }
constexpr std::size_t pair_bytes = ring_bytes(Channel::data) + ring_bytes(Channel::control);
/// Addresses in the file, not memory: it has only the pages that were written.
constexpr std::uint64_t window_bytes = std::uint64_t{1} << 40;

std::uint64_t rings_bytes(int processes) {
  return pair_bytes * static_cast<std::uint64_t>(processes) * static_cast<std::uint64_t>(processes);
}
std::uint64_t file_bytes(int processes) {
  return rings_bytes(processes) + window_bytes * static_cast<std::uint64_t>(processes * Communicator::windows);
}

/// Reading beyond the end would end the process.
File of_length(File file, std::uint64_t bytes) {
  struct stat status {};
  if (::fstat(file.descriptor(), &status) != 0) {
    throw CommunicatorError(std::string("shared_memory: process 0's file cannot be examined: ") + std::strerror(errno));
  }
  if (static_cast<std::uint64_t>(status.st_size) == bytes) return file;
  throw CommunicatorError("shared_memory: process 0's file has " + std::to_string(status.st_size) +
                          " bytes, expected " + std::to_string(bytes) + "; let all processes run the same program.");
}

}  // namespace

Mapping::Mapping(const File& file, std::uint64_t offset, std::size_t bytes) {
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file.descriptor(),
                          static_cast<off_t>(offset));
  if (at == MAP_FAILED) {
    throw CommunicatorError("shared_memory: " + std::to_string(bytes) + " bytes could not be mapped (" +
                            std::strerror(errno) + "); raise the limit of memory, or set LOCKSTEP_COMMUNICATOR=mpi.");
  }
  bytes_ = {static_cast<std::byte*>(at), bytes};
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

File Segment::make(const Job& job) {
  File file(::memfd_create("lockstep", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  rlimit limit{};
  const std::uint64_t bytes = file_bytes(job.size);
  // A file beyond the limit would end the process with a signal.
  const bool fits =
      ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= bytes);
  if (!file.is_open() || !fits || ::ftruncate(file.descriptor(), static_cast<off_t>(bytes)) != 0) return {};
  // Its length stays as it is, whoever has it: a shorter one would end processes that read it. A system that knows no
  // seals does without.
  static_cast<void>(::fchmod(file.descriptor(), S_IRUSR | S_IWUSR));
  static_cast<void>(::fcntl(file.descriptor(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL));
  return file;
}

Segment::Segment(File file, int processes)
    : file_(of_length(std::move(file), file_bytes(processes))),
      processes_(processes),
      rings_(file_, 0, rings_bytes(processes)),
      windows_(static_cast<std::size_t>(processes * Communicator::windows)) {}

// Of a new file all bytes are zero, which is how the ends begin.
Ring Segment::ring(Channel channel, int from, int to) const {
  const auto pair = static_cast<std::size_t>(from * processes_ + to);
  const std::size_t first = pair * pair_bytes + (channel == Channel::data ? 0 : ring_bytes(Channel::data));
  const std::span<std::byte> bytes = rings_.bytes().subspan(first, ring_bytes(channel));
  return {*reinterpret_cast<RingEnds*>(bytes.data()), bytes.subspan(page)};
}

std::span<std::byte> Segment::window(int process, int number, std::size_t bytes) {
  const auto index = static_cast<std::size_t>(process * Communicator::windows + number);
  std::vector<Mapping>& mappings = windows_.at(index);
  if (mappings.empty() || mappings.back().bytes().size() < bytes) {
    mappings.emplace_back(file_, rings_bytes(processes_) + window_bytes * index, std::bit_ceil(std::max(bytes, page)));
  }
  return mappings.back().bytes().first(bytes);
}

}  // namespace lockstep::backend::shared_memory
