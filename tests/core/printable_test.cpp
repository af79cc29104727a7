// Control characters of texts that come from files do not reach the terminal: in errors, and where programs print them.
#include <string>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/core/quoting.h"

namespace lockstep::tests {

TEST_CASE("control characters are shown, not obeyed") {
  CHECK(printable("plain text, \t\"quoted\" \xc3\xa4\xe2\x82\xac") == "plain text, \t\"quoted\" \xc3\xa4\xe2\x82\xac");
  CHECK(printable("\x1b]0;title\x07 \x7f\r\b") == "\\x1b]0;title\\x07 \\x7f\\x0d\\x08");
  CHECK(printable("a\nb") == "a\\x0ab");
  CHECK(printable("a\nb\x1b", Lines::kept) == "a\nb\\x1b");
  CHECK(printable("\xc2\x9b"
                  "31m \xc2\xa0") == "\\x9b31m \xc2\xa0");
  CHECK(printable(std::string("\0", 1)) == "\\x00");
}

TEST_CASE("an error's text has no control characters but the ends of its lines") {
  CHECK(std::string(DataError("\x1b[2J 'a\x07'\nb").what()).starts_with("\\x1b[2J 'a\\x07'\nb"));
}

}  // namespace lockstep::tests
