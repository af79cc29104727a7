#pragma once

#include <source_location>

#include <lockstep/export.h>

namespace lockstep::detail {

#if defined(__cpp_lib_source_location)
using SourceLocation = std::source_location;
#else
/// Of a standard library without it: errors then say the layer alone.
struct SourceLocation {
  static constexpr SourceLocation current() { return {}; }
  constexpr const char* file_name() const { return ""; }
  constexpr unsigned line() const { return 0; }
};
#endif

/// Makes `at` the place of this thread's call, unless the library's own code stands there; returns what it was.
LOCKSTEP_API SourceLocation enter_call(const SourceLocation& at) noexcept;
/// Makes `outer`, what enter_call returned, the place again.
LOCKSTEP_API void leave_call(const SourceLocation& outer) noexcept;

/// The place in a program from which a function of the library is called, as a part of one of its arguments: it is
/// there from the conversion of the argument to the end of the call's full expression. Errors made in between say file
/// and line.
class CallSite {
 public:
  CallSite(const SourceLocation& at) noexcept : outer_(enter_call(at)), is_open_(true) {}  // NOLINT: implicit by design
  CallSite(const CallSite& /*other*/) noexcept {}  // a copy of an argument is no call
  CallSite& operator=(const CallSite& /*other*/) noexcept { return *this; }
  ~CallSite() {
    if (is_open_) leave_call(outer_);
  }

 private:
  SourceLocation outer_;
  bool is_open_ = false;
};

}  // namespace lockstep::detail
