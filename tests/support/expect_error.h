#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

namespace lockstep::tests {

/// Runs `function` and expects an exception of type E whose text holds every one of the parts.
template <class E, class F, class... Parts>
void expect_error(const F& function, const Parts&... parts) {
  std::string text;
  try {
    function();
  } catch (const E& error) {
    text = error.what();
  } catch (const std::exception& error) {
    FAIL("another kind of error was thrown: " << std::string(error.what()));
  }
  REQUIRE_MESSAGE(!text.empty(), "no error was thrown");
  const auto check = [&text](std::string_view part) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, "\"" << part << "\" is not in: " << text);
  };
  (check(parts), ...);
}

}  // namespace lockstep::tests
