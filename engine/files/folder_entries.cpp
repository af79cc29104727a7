#include "engine/files/folder_entries.h"

#include <cerrno>
#include <memory>
#include <new>
#include <string_view>

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/files/open_file.h"

namespace lockstep::files {

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::string> names = names_in(folder, error);
  if (!error || error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory) return names;
  throw FileError(folder, "looked through", error.message(), error.value());
}

std::vector<std::string> names_in(const std::filesystem::path& folder, std::error_code& error) {
  errno = 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> open(opendir(folder.c_str()), closedir);
  if (open == nullptr && errno == ENOMEM) throw std::bad_alloc();
  std::vector<std::string> names;
  while (open != nullptr) {
    errno = 0;
    const dirent* entry = readdir(open.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  error = std::error_code(errno, std::generic_category());
  return names;
}

int remove_tree(const std::filesystem::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) return errno == ENOENT ? 0 : errno;
  if (!S_ISDIR(status.st_mode)) return unlink(path.c_str()) == 0 || errno == ENOENT ? 0 : errno;
  std::error_code unread;
  const std::vector<std::string> names = names_in(path, unread);
  int error = unread.value();
  for (const std::string& name : names) {
    const int failed = remove_tree(path / name);
    if (error == 0) error = failed;
  }
  if (rmdir(path.c_str()) == 0 || errno == ENOENT) return 0;
  return error == 0 ? errno : error;
}

}  // namespace lockstep::files
