#pragma once

#include <cstdint>
#include <string_view>

#include <lockstep/export.h>

namespace lockstep::backend {

/// Vector instructions that kernels of our own may be made of, each level with those below it.
/// avx2: AVX2 and FMA. avx512: AVX-512 F, BW, DQ and VL.
enum class Isa : std::uint8_t { none, avx2, avx512 };

/// "none", "avx2", "avx512".
LOCKSTEP_API std::string_view name(Isa isa);

/// The highest level the environment variable LOCKSTEP_MAX_ISA allows; avx512 where it is not set. Throws BackendError
/// naming the variable for a value that is no level's name.
LOCKSTEP_API Isa max_isa();

/// The highest level that this processor and system have, at most `max_isa()`.
LOCKSTEP_API Isa usable_isa();

/// Whether the system lets a process execute pages that it has written, as machine code made at run time needs; some
/// forbid it, by a policy or a process' own wish. Asked of the system each time. Throws BackendError where it has no memory to
/// try it in.
LOCKSTEP_API bool may_execute_written_pages();

}  // namespace lockstep::backend
