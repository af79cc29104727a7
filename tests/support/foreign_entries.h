// What may lie in a folder that comes from elsewhere and is neither a file nor a folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/support/expect_error.h"
#include "tests/support/forked.h"

namespace lockstep::tests {

/// How errors call it, and what makes one at a path; a link leads to `target`. False where that cannot be made here.
struct ForeignKind {
  const char* name;
  std::function<bool(const std::filesystem::path& path, const std::filesystem::path& target)> make;
};

inline const std::vector<ForeignKind>& foreign_kinds() {
  using Path = std::filesystem::path;
  static const std::vector<ForeignKind> kinds = {
      {"a symbolic link",
       [](const Path& path, const Path& target) { return ::symlink(target.c_str(), path.c_str()) == 0; }},
      {"a FIFO", [](const Path& path, const Path&) { return ::mkfifo(path.c_str(), 0600) == 0; }},
      {"a device",
       [](const Path& path, const Path&) { return ::mknod(path.c_str(), S_IFCHR | 0600, makedev(1, 3)) == 0; }},
      {"a socket",
       [](const Path& path, const Path&) {
         sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
         if (path.string().size() >= sizeof(address.sun_path)) return false;
         path.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
         const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
         const bool is_made = ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
         ::close(socket);
         return is_made;
       }},
  };
  return kinds;
}

/// In a process of its own, 0 where `work` throws an E that names the path and what it is: a wait for ever ends there, too.
template <class E>
int refused_by_name(const std::filesystem::path& path, const std::string& kind, const std::function<void()>& work) {
  return forked([&] {
    try {
      work();
    } catch (const E& error) {
      return contains(error.what(), path.string()) && contains(error.what(), kind) ? 0 : 2;
    }
    return 1;
  });
}

}  // namespace lockstep::tests
