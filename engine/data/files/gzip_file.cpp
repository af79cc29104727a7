#include "engine/data/files/gzip_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <sys/stat.h>
#include <zlib.h>

#include <lockstep/error.h>

#include "engine/data/files/file_bytes.h"
#include "engine/files/open_file.h"

namespace lockstep::data {
namespace {

[[noreturn]] void fail_in_gzip(const std::string& name, const std::string& what) {
  throw DataError("[read_idx] " + name + ": " + what);
}

files::Descriptor open_idx(const std::filesystem::path& path) {
  try {
    return files::open_to_read(path, files::Links::followed);
  } catch (const files::FileError& error) {
    const std::string name = path.string();
    if (error.error() == 0) fail_in_gzip(name, "is no regular file; give a plain or gzip IDX file");
    const bool is_there = error.error() == EACCES || error.error() == EMFILE || error.error() == ENFILE;
    if (is_there) fail_in_gzip(name, "cannot be opened: " + error.why());
    fail_in_gzip(name, "no such file; check the folder given for the data");
  }
}

}  // namespace

struct GzipFile::Handle {
  gzFile file = nullptr;
  ~Handle() {
    if (file != nullptr) gzclose(file);
  }
};

GzipFile::GzipFile(std::filesystem::path path) : name_(path.string()), handle_(std::make_unique<Handle>()) {
  files::Descriptor file = open_idx(path);
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
      std::string_view why = message;
      const std::string_view mark = ">: ";  // "<fd:3>: " is what zlib calls the file
      if (const std::size_t at = why.find(mark); why.starts_with("<fd:") && at != std::string_view::npos) {
        why.remove_prefix(at + mark.size());
      }
      fail_in_gzip(name_, "is damaged or cut short: " + name_ + ": " + std::string(why));
    }
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

}  // namespace lockstep::data
