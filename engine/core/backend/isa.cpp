#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>

#include <sys/mman.h>

#include <lockstep/backend/isa.h>
#include <lockstep/error.h>

namespace lockstep::backend {
namespace {

constexpr std::array<Isa, 3> levels = {Isa::none, Isa::avx2, Isa::avx512};

Isa machine_isa() {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return avx2 && avx512 ? Isa::avx512 : avx2 ? Isa::avx2 : Isa::none;
#else
  return Isa::none;
#endif
}

}  // namespace

std::string_view name(Isa isa) {
  constexpr std::array<std::string_view, 3> names = {"none", "avx2", "avx512"};
  return names[static_cast<std::size_t>(isa)];
}

Isa max_isa() {
  const char* value = std::getenv("LOCKSTEP_MAX_ISA");
  if (value == nullptr || *value == '\0') return Isa::avx512;
  for (const Isa isa : levels) {
    if (name(isa) == value) return isa;
  }
  throw BackendError(
      "LOCKSTEP_MAX_ISA=" + std::string(value) +
      " is no set of instructions; expected avx512, avx2 or none. Unset it to use all the processor has.");
}

Isa usable_isa() { return std::min(max_isa(), machine_isa()); }

bool may_execute_written_pages() {
  constexpr std::size_t nbytes = 1;  // the system makes it a page
  void* page = ::mmap(nullptr, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int error = page == MAP_FAILED ? errno : 0;
  if (page != MAP_FAILED) {
    *static_cast<volatile char*>(page) = 0;
    if (::mprotect(page, nbytes, PROT_READ | PROT_EXEC) != 0) error = errno;
    ::munmap(page, nbytes);
  }
  // Want of memory says nothing of what may be, and which kernels a training has must not hang on it.
  if (error != ENOMEM) return error == 0;
  throw BackendError(std::string("the system gives no page of memory to try machine code in: ") + std::strerror(error) +
                     "; end other programs, or raise this process's limit (ulimit -v)");
}

}  // namespace lockstep::backend
