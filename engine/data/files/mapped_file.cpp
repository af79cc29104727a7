#include "engine/data/files/mapped_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lockstep/error.h>

#include "engine/data/prefetch.h"

namespace lockstep::data {
namespace {

[[noreturn]] void fail_to_map(const std::string& who, const std::string& name, const std::string& what) {
  throw DataError("[" + who + "] " + name + ": " + what);
}

/// A descriptor of a regular file, and its size.
std::pair<int, std::size_t> open_regular(const std::string& name, const std::string& who) {
  files::Descriptor file = open_data_file(name, who);
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) {
    fail_to_map(who, name, std::string("cannot be opened: ") + std::strerror(errno));
  }
  return {file.release(), static_cast<std::size_t>(status.st_size)};
}

/// Of a file, that are read ahead at once: a multiple of a page.
constexpr std::size_t piece = std::size_t{1} << 16;

}  // namespace

files::Descriptor open_data_file(const std::filesystem::path& path, const std::string& who) {
  try {
    return files::open_to_read(path, files::Links::followed);
  } catch (const files::FileError& error) {
    if (error.error() == ENOENT || error.error() == ENOTDIR) {
      fail_to_map(who, path.string(), "no such file; check the path");
    }
    if (error.error() != 0) fail_to_map(who, path.string(), "cannot be opened: " + error.why());
    fail_to_map(who, path.string(), "is no regular file; give the path of a file");
  }
}

MappedFile::MappedFile(const std::filesystem::path& path, std::string who)
    : who_(std::move(who)), name_(path.string()) {
  std::tie(descriptor_, size_) = open_regular(name_, who_);
  if (size_ == 0) return;
  try {
    is_read_ahead_ = std::make_unique<std::atomic<bool>[]>((size_ + piece - 1) / piece);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  void* memory = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor_, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    ::close(descriptor_);
    fail_to_map(who_, name_, std::string("cannot be mapped into memory: ") + std::strerror(error));
  }
  begin_ = static_cast<const std::byte*>(memory);
}

MappedFile::~MappedFile() {
  if (begin_ != nullptr) ::munmap(const_cast<std::byte*>(begin_), size_);
  ::close(descriptor_);
}

std::span<const std::byte> MappedFile::bytes(std::size_t begin, std::size_t size) const {
  struct stat status = {};
  if (::fstat(descriptor_, &status) != 0) {
    fail_to_map(who_, name_, std::string("cannot be examined: ") + std::strerror(errno));
  }
  if (static_cast<std::size_t>(status.st_size) < begin + size) {
    fail_to_map(who_, name_,
                "byte " + std::to_string(begin) + ": " + std::to_string(size) + " bytes expected, the file now has " +
                    std::to_string(status.st_size) + " in all; it was cut while it was in use");
  }
  return {begin_ + begin, size};
}

void MappedFile::expect(std::size_t begin, std::size_t size) const noexcept {
  if (size == 0 || begin > size_ || size > size_ - begin) return;
  for (std::size_t k = begin / piece; k <= (begin + size - 1) / piece; ++k) {
    if (is_read_ahead_[k].load(std::memory_order_relaxed) || is_read_ahead_[k].exchange(true)) continue;
    void* const from = const_cast<std::byte*>(begin_ + k * piece);
    static_cast<void>(::madvise(from, std::min(piece, size_ - k * piece), MADV_WILLNEED));
  }
  prefetch(begin_ + begin, size);
}

std::vector<std::byte> read_file(const std::filesystem::path& path, const std::string& who) {
  const std::string name = path.string();
  const auto [descriptor, size] = open_regular(name, who);
  std::vector<std::byte> bytes;
  try {
    bytes.resize(size);
  } catch (const std::exception&) {
    ::close(descriptor);
    fail_to_map(who, name,
                "there is no memory for its " + std::to_string(size) + " bytes; expected a file that memory holds");
  }
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(descriptor, bytes.data() + done, std::min(size - done, std::size_t{1} << 30));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      const std::string why = got < 0 ? std::strerror(errno) : "it was cut while it was read";
      ::close(descriptor);
      fail_to_map(who, name, "byte " + std::to_string(done) + ": " + std::to_string(size) + " bytes expected: " + why);
    }
    done += static_cast<std::size_t>(got);
  }
  ::close(descriptor);
  return bytes;
}

}  // namespace lockstep::data
