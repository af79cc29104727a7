#pragma once

#if defined(__linux__) && defined(__x86_64__)
#define LOCKSTEP_HAS_PAGE_RULES 1

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <doctest/doctest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Systems that let no program execute what it has written, made of the one that tests run on.
namespace lockstep::tests {

/// From here on this process and all that it starts may not change pages to have every mode of `forbidden`, nor map any
/// that can be written and executed. False where the system knows no such rules.
inline bool forbid_pages(std::uint32_t forbidden) {
  constexpr std::uint32_t both = PROT_WRITE | PROT_EXEC;
  constexpr std::uint32_t number = offsetof(seccomp_data, nr), mode = offsetof(seccomp_data, args[2]);
  constexpr std::uint32_t refuse = SECCOMP_RET_ERRNO | EACCES;
  std::array<sock_filter, 11> filter = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, mode),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, forbidden),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, forbidden, 4, 5),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 4),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, mode),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, both),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, both, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, refuse),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// What `work` returns in a process of its own, under those rules; -1 where there are none.
inline int under_page_rules(std::uint32_t forbidden, const std::function<int()>& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    constexpr int without_rules = 99;
    _exit(forbid_pages(forbidden) ? work() : without_rules);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace lockstep::tests

#endif
