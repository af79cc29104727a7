// What another user's process does, which only root can arrange.
#pragma once

#include <filesystem>
#include <functional>

#include <grp.h>
#include <unistd.h>

#include "tests/support/forked.h"

namespace lockstep::tests {

constexpr uid_t nobody = 65534;

inline bool become_nobody() { return ::setgroups(0, nullptr) == 0 && ::setgid(nobody) == 0 && ::setuid(nobody) == 0; }

/// What `work` returns in a process of user nobody; 254 where there can be none.
inline int as_nobody(const std::function<int()>& work) {
  return forked([&] { return become_nobody() ? work() : 254; });
}

/// Gives a folder and all in it to nobody.
inline void give_to_nobody(const std::filesystem::path& folder) {
  static_cast<void>(::lchown(folder.c_str(), nobody, nobody));
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    static_cast<void>(::lchown(entry.path().c_str(), nobody, nobody));
  }
}

inline const char* const only_root = "only root may become another user";

}  // namespace lockstep::tests
