#pragma once

#include <lockstep/export.h>

namespace lockstep::detail {

/// A place in a program: file and line. Of our own, as every compiler must name the same type: std::source_location is not
/// there for clang 14, and a program that had another type here would not link.
struct SourceLocation {
  /// As a default argument it is the place of the call.
  static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                          unsigned line = __builtin_LINE()) noexcept {
    SourceLocation here;
    here.file_ = file;
    here.line_ = line;
    return here;
  }
  constexpr const char* file_name() const noexcept { return file_; }
  constexpr unsigned line() const noexcept { return line_; }

  const char* file_ = "";
  unsigned line_ = 0;
  bool in_library_ = false;  ///< Whether a layer, a loss or another function of arrays' functions makes the ops there.
};

/// Makes `at` the place of this thread's call; where it is in the library's own code, the place stays and is marked as one
/// inside which the library calls. Returns the place before.
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
