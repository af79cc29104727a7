#pragma once

#include <string_view>

#include <lockstep/export.h>

namespace lockstep::detail {

/// Throws ValueError: the object of that name was moved away.
[[noreturn]] LOCKSTEP_API void refuse_moved_from(std::string_view what);

/// What the object called `what` keeps behind a pointer (or holds as a function). Throws ValueError where std::move took
/// that away.
template <class Pointer>
decltype(auto) held(const Pointer& pointer, std::string_view what) {
  if (pointer == nullptr) refuse_moved_from(what);
  return *pointer;
}
template <class Function>
void expect_held(const Function& function, std::string_view what) {
  if (!function) refuse_moved_from(what);
}

}  // namespace lockstep::detail
