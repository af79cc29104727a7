#include "engine/ir/text/scanner.h"

#include <charconv>

#include <lockstep/error.h>

#include "engine/core/quoting.h"

namespace lockstep::ir {

namespace {

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool in_word(char c) { return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

void Scanner::fail(const std::string& expected) const {
  std::size_t line = 1;
  std::size_t column = 1;
  for (const char c : text_.substr(0, position_)) {
    line += c == '\n' ? 1 : 0;
    column = c == '\n' ? 1 : column + 1;
  }
  const std::string_view rest = text_.substr(position_, 12);
  const std::string found = rest.empty() ? "the end" : quoted(rest.substr(0, rest.find('\n')));
  throw IrError("parse: line " + std::to_string(line) + ", column " + std::to_string(column) + ": expected " +
                expected + ", found " + found);
}

void Scanner::skip_space() {
  while (position_ < text_.size() && is_space(text_[position_])) ++position_;
}

bool Scanner::at_end() {
  skip_space();
  return position_ == text_.size();
}

char Scanner::peek() {
  skip_space();
  return peek_raw();
}

bool Scanner::take(std::string_view token) {
  skip_space();
  if (text_.substr(position_, token.size()) != token) return false;
  position_ += token.size();
  return true;
}

void Scanner::expect(std::string_view token, std::string_view where) {
  if (!take(token)) fail(quoted(token) + " " + std::string(where));
}

std::string Scanner::word(std::string_view what) {
  skip_space();
  std::size_t end = position_;
  while (end < text_.size() && in_word(text_[end])) ++end;
  if (end == position_) fail(std::string(what));
  const std::string_view result = text_.substr(position_, end - position_);
  position_ = end;
  return std::string(result);
}

std::string Scanner::word_or_quoted(std::string_view what) { return peek() == '"' ? quoted_string() : word(what); }

char Scanner::next_escaped() {
  const char kind = peek_raw();
  if (kind == '"' || kind == '\\') {
    ++position_;
    return kind;
  }
  const std::string_view code = text_.substr(position_, 3);
  if (kind != 'x' || code.size() < 3 || hex_digit(code[1]) < 0 || hex_digit(code[2]) < 0) {
    fail("\\\", \\\\ or \\x and two hexadecimal digits");
  }
  position_ += 3;
  return static_cast<char>(16 * hex_digit(code[1]) + hex_digit(code[2]));
}

std::string Scanner::quoted_string() {
  expect("\"", "before a string");
  std::string result;
  while (peek_raw() != '"') {
    if (position_ == text_.size()) fail("'\"' after a string");
    const char c = text_[position_++];
    result += c == '\\' ? next_escaped() : c;
  }
  ++position_;
  return result;
}

std::string_view Scanner::number_text() {
  skip_space();
  std::size_t end = position_;
  while (end < text_.size()) {
    const char c = text_[end];
    const bool sign = (c == '-' || c == '+') && (end == position_ || text_[end - 1] == 'e');
    if (!is_digit(c) && !sign && c != '.' && !(c == 'e' && end > position_)) break;
    ++end;
  }
  return text_.substr(position_, end - position_);
}

std::int64_t Scanner::integer(std::string_view what) {
  skip_space();
  std::int64_t value = 0;
  const char* const first = text_.data() + position_;
  const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
  if (error != std::errc()) fail(std::string(what));
  position_ += static_cast<std::size_t>(end - first);
  return value;
}

}  // namespace lockstep::ir
