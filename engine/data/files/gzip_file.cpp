#include "engine/data/files/gzip_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <sys/stat.h>
#include <zlib.h>

#include <lockstep/error.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"

namespace lockstep::data {
namespace {

[[noreturn]] void fail_in_gzip(const std::string& name, const std::string& what) {
  throw DataError("[read_idx] " + name + ": " + what);
}

}  // namespace

struct GzipFile::Handle {
  gzFile file = nullptr;
  ~Handle() {
    if (file != nullptr) gzclose(file);
  }
};

GzipFile::GzipFile(std::filesystem::path path) : name_(path.string()), handle_(std::make_unique<Handle>()) {
  files::Descriptor file = open_data_file(path, "read_idx");
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) fail_in_gzip(name_, std::string("cannot be read: ") + std::strerror(errno));
  const auto size = static_cast<std::uintmax_t>(status.st_size);
  handle_->file = gzdopen(file.get(), "rb");
  if (handle_->file == nullptr) fail_in_gzip(name_, std::string("cannot be opened: ") + std::strerror(errno));
  static_cast<void>(file.release());  // it is closed with the other
  // gzdirect looks at the first bytes: 1 means that there is no gzip header.
  longest_ = gzdirect(handle_->file) == 1 ? size : size * largest_deflate_ratio;
}

GzipFile::~GzipFile() = default;

std::size_t GzipFile::read(std::span<std::byte> bytes) {
  constexpr std::size_t largest_read = 1U << 30;
  std::size_t done = 0;
  while (done < bytes.size()) {
    const auto want = static_cast<unsigned>(std::min(bytes.size() - done, largest_read));
    const int got = gzread(handle_->file, bytes.data() + done, want);
    int code = Z_OK;
    const char* message = gzerror(handle_->file, &code);
    if (got < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      fail_in_gzip(name_, std::string("is damaged or cut short: ") + message);
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace lockstep::data
