#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::exchange::mlir {

/// Characters of a text, with white space and comments skipped between them.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  /// The next character that counts; '\0' at the end.
  char peek();
  bool at_end() { return peek() == '\0'; }
  bool accept(std::string_view mark);
  void expect(std::string_view mark);
  bool next_is(std::string_view mark);
  /// A name: letters, digits, '_', '.', '$', '-' (where a letter or digit follows).
  bool next_is_word();
  std::string word();
  bool accept_word(std::string_view wanted);
  /// A name after '%', '@', '#' or '^', which may be in quotes.
  std::string name_after(char mark);
  bool next_is_number();
  std::string number();
  std::string string();
  /// What stands up to the '>' that closes a '<' read before.
  std::string up_to_closing();
  /// A bracketed part, whatever is in it.
  void skip_parentheses();
  void skip_line();

  std::int64_t line() const;
  [[noreturn]] void fail(const std::string& what) const;
  /// Says what stands there instead.
  [[noreturn]] void fail_expecting(std::string_view what) const;

 private:
  void skip_space();

  std::string_view text_;
  std::size_t at_ = 0;
  mutable std::size_t counted_ = 0;  ///< So far ends of lines are counted.
  mutable std::int64_t ends_ = 0;
};

}  // namespace lockstep::exchange::mlir
