#pragma once

#include <exception>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <string>
#include <typeinfo>

#include <doctest/doctest.h>

#include "tests/support/temporary_folder.h"

// The list of bad inputs, row by row: what each ends in, to the letter. A row's number is its place in the list;
// tests/lint/bad_inputs.cmake counts that none is missing. An input stands for its kind: neighbours have the same number.
// The texts stand in texts/, each row's in one file, in the order in which a row's inputs are tried; LOCKSTEP_WRITE_TEXTS=<file> appends them
// as they are to another file. In them a temporary folder is {folder}, the end of a name that is drawn {drawn}, and where
// an error was made {place}.
namespace lockstep::tests {

/// Checks that the next text of row `number` is this one, and tells; `hidden`, which no test can know before, is {}.
bool check_text(int number, std::string text, const std::string& hidden);

/// Row `number`: `action` throws an E, and none derived from it, of the row's next text. Whether it was so, for a forked
/// process, whose failed checks nobody counts.
template <class E, class F>
bool refused(int number, const F& action, const std::string& hidden = {}) {
  CAPTURE(number);
  try {
    action();
  } catch (const E& error) {
    CHECK(typeid(error) == typeid(E));
    return check_text(number, error.what(), hidden) && typeid(error) == typeid(E);
  } catch (const std::exception& error) {
    FAIL_CHECK("another kind of error was thrown: " << std::string(error.what()));
    return false;
  }
  FAIL_CHECK("no error was thrown");
  return false;
}

/// Row `number`: each of the calls throws an error of the library, whose kind and text are the row's next text:
/// "ShapeError: ...".
void all_refused(int number, std::initializer_list<std::function<void()>> calls);

/// Row `number`, which is no error here: `check` says what it is.
template <class F>
void row(int number, const F& check) {
  CAPTURE(number);
  check();
}

/// Row `number`: `read` of a file that holds `bytes` throws an E.
template <class E, class F>
void refused_file(int number, const std::string& bytes, const F& read) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("bad", bytes);
  refused<E>(number, [&] { read(path); });
}

}  // namespace lockstep::tests
