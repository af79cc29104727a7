#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace lockstep::tests {

/// The text of the E that `function` throws; fails the test where it throws nothing or another kind.
template <class E, class F>
std::string error_text(const F& function) {
  try {
    function();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    FAIL("another kind of error was thrown: " << std::string(error.what()));
  }
  FAIL("no error was thrown");
  return {};
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Runs `function` and expects an exception of type E whose text holds every one of the parts.
template <class E, class F, class... Parts>
void expect_error(const F& function, const Parts&... parts) {
  const std::string text = error_text<E>(function);
  const auto check = [&text](std::string_view part) {
    CHECK_MESSAGE(contains(text, part), "\"" << part << "\" is not in: " << text);
  };
  (check(parts), ...);
}

}  // namespace lockstep::tests
