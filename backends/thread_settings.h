#pragma once

#include <omp.h>
#include <xmmintrin.h>

namespace lockstep::backends {

/// One OpenMP thread and plain IEEE floats for the calling thread, until destroyed there: what the bits of a library's
/// kernels are to be independent of. Primitives whose work is split when they are made are made under it too.
class ThreadSettings {
 public:
  ThreadSettings() : threads_(omp_get_max_threads()), float_control_(_mm_getcsr()) { apply(); }
  ThreadSettings(const ThreadSettings&) = delete;
  ThreadSettings& operator=(const ThreadSettings&) = delete;
  ~ThreadSettings() { set(threads_, float_control_); }

  /// Once more, after a library has set what it likes.
  void apply() const { set(1, default_float_control); }

 private:
  static constexpr unsigned default_float_control = 0x1F80;  // round to nearest, denormals kept, exceptions masked
  static constexpr unsigned flags = 0x3F;                    // of what has happened: they control nothing

  /// Each call of a compiled function comes here; writing what is there already would cost more than asking.
  static void set(int threads, unsigned float_control) {
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
    if (((_mm_getcsr() ^ float_control) & ~flags) != 0) _mm_setcsr(float_control);
  }

  int threads_;
  unsigned float_control_;
};

}  // namespace lockstep::backends
