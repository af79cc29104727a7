#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::ir {

/// Reads the text of a printed function piece by piece. Every failure is an IrError naming line and column.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  void skip_space();
  bool at_end();
  /// The next character after space, '\0' at the end.
  char peek();
  /// The next character, space included.
  char peek_raw() const { return position_ < text_.size() ? text_[position_] : '\0'; }
  /// Takes `token` where it comes next (after space).
  bool take(std::string_view token);
  void expect(std::string_view token, std::string_view where);
  /// A word: letters, digits and '_'. `what` names it in the message.
  std::string word(std::string_view what);
  std::string word_or_quoted(std::string_view what);
  std::string quoted_string();
  std::int64_t integer(std::string_view what);
  /// Digits, sign, '.', exponent: a number's characters, without reading them.
  std::string_view number_text();

  [[noreturn]] void fail(const std::string& expected) const;

  std::size_t position() const { return position_; }
  void set_position(std::size_t position) { position_ = position; }

 private:
  char next_escaped();

  std::string_view text_;
  std::size_t position_ = 0;
};

}  // namespace lockstep::ir
