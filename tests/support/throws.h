#pragma once

#include <string>
#include <string_view>

#include <doctest/doctest.h>

// Checks the kind of an exception and parts of its text.
namespace lockstep::tests {

/// The text of the E that `call` throws; "" with a failed check where it throws none or something else.
template <class E, class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    FAIL_CHECK("another kind of exception: " << error.what());
    return "";
  }
  FAIL_CHECK("nothing was thrown");
  return "";
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace lockstep::tests
