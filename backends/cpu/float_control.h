#pragma once

#include <xmmintrin.h>

namespace lockstep::backend::cpu {

/// Plain IEEE floats for the calling thread, until destroyed there: round to nearest, denormals kept, exceptions masked.
class FloatControl {
 public:
  FloatControl() : before_(_mm_getcsr()) { apply(); }
  FloatControl(const FloatControl&) = delete;
  FloatControl& operator=(const FloatControl&) = delete;
  ~FloatControl() { set(before_); }

  /// Once more, after a library has set what it likes.
  static void apply() { set(plain); }
  static bool is_plain() { return is(plain); }

 private:
  static constexpr unsigned plain = 0x1F80;
  static constexpr unsigned flags = 0x3F;  // of what has happened: they control nothing

  static bool is(unsigned control) { return ((_mm_getcsr() ^ control) & ~flags) == 0; }
  /// Each call of a compiled function comes here; writing what is there already would cost more than asking.
  static void set(unsigned control) {
    if (!is(control)) _mm_setcsr(control);
  }

  unsigned before_;
};

}  // namespace lockstep::backend::cpu
