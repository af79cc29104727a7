#pragma once

#include <string>

#include <doctest/doctest.h>

namespace lockstep::tests {

/// The text of the ErrorType that `action` throws; fails the test where it throws nothing or another type.
template <class ErrorType, class Action>
std::string error_text(Action&& action) {
  try {
    action();
  } catch (const ErrorType& error) {
    return error.what();
  } catch (const std::exception& error) {
    FAIL("another error was thrown: ", error.what());
  }
  FAIL("nothing was thrown");
  return {};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace lockstep::tests

/// `action` throws `ErrorType` whose text contains `part`.
#define CHECK_ERROR(ErrorType, action, part)                                                   \
  do {                                                                                         \
    const std::string text_ = lockstep::tests::error_text<ErrorType>([&] { (void)(action); }); \
    INFO("the error says: ", text_);                                                           \
    CHECK(lockstep::tests::contains(text_, part));                                             \
  } while (false)
