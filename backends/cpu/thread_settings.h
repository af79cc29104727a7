#pragma once

#include <omp.h>

#include "backends/cpu/float_control.h"

namespace lockstep::backend::cpu {

/// One OpenMP thread and plain IEEE floats for the calling thread, until destroyed there: what the bits of a library's
/// kernels are to be independent of. Primitives whose work is split when they are made are made under it too.
class ThreadSettings {
 public:
  ThreadSettings() : threads_(omp_get_max_threads()) { set(1); }
  ThreadSettings(const ThreadSettings&) = delete;
  ThreadSettings& operator=(const ThreadSettings&) = delete;
  ~ThreadSettings() { set(threads_); }

  /// Once more, after a library has set what it likes.
  void apply() const {
    set(1);
    FloatControl::apply();
  }

 private:
  /// Each call of a compiled function comes here; writing what is there already would cost more than asking.
  static void set(int threads) {
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
  }

  int threads_;
  FloatControl floats_;
};

}  // namespace lockstep::backend::cpu
