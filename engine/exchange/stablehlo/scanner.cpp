#include "engine/exchange/stablehlo/scanner.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep::exchange::mlir {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_in_word(char c) { return is_letter(c) || is_digit(c) || c == '.' || c == '$'; }

}  // namespace

std::int64_t Scanner::line() const {
  const std::size_t at = std::min(at_, text_.size());
  if (at < counted_) counted_ = 0, ends_ = 0;
  const auto place = [&](std::size_t i) { return text_.begin() + static_cast<std::ptrdiff_t>(i); };
  ends_ += std::count(place(counted_), place(at), '\n');
  counted_ = at;
  return 1 + ends_;
}

void Scanner::fail(const std::string& what) const {
  throw IrError(fmt::format("[from_stablehlo] line {}: {}", line(), what));
}

void Scanner::skip_space() {
  while (at_ < text_.size()) {
    if (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r') {
      ++at_;
    } else if (text_.substr(at_).starts_with("//")) {
      skip_line();
    } else {
      return;
    }
  }
}

void Scanner::skip_line() { at_ = std::min(text_.find('\n', at_), text_.size()); }

char Scanner::peek() {
  skip_space();
  return at_ < text_.size() ? text_[at_] : '\0';
}

bool Scanner::next_is(std::string_view mark) {
  skip_space();
  return text_.substr(at_).starts_with(mark);
}

bool Scanner::accept(std::string_view mark) {
  if (!next_is(mark)) return false;
  at_ += mark.size();
  return true;
}

void Scanner::expect(std::string_view mark) {
  if (!accept(mark)) fail_expecting(mark);
}

void Scanner::fail_expecting(std::string_view what) const {
  std::string found(text_.substr(std::min(at_, text_.size()), 20));
  std::ranges::replace_if(
      found, [](char c) { return c < ' ' || c > '~'; }, ' ');
  fail(fmt::format("expected '{}', found '{}'", what, found));
}

bool Scanner::next_is_word() { return is_letter(peek()); }

std::string Scanner::word() {
  if (!next_is_word()) fail_expecting("a name");
  const std::size_t begin = at_;
  while (at_ < text_.size() && is_in_word(text_[at_])) ++at_;
  return std::string(text_.substr(begin, at_ - begin));
}

bool Scanner::accept_word(std::string_view wanted) {
  skip_space();
  const std::string_view rest = text_.substr(at_);
  if (!rest.starts_with(wanted) || (rest.size() > wanted.size() && is_in_word(rest[wanted.size()]))) return false;
  at_ += wanted.size();
  return true;
}

std::string Scanner::name_after(char mark) {
  expect(std::string(1, mark));
  if (at_ < text_.size() && text_[at_] == '"') return string();
  const std::size_t begin = at_;
  while (at_ < text_.size() && (is_in_word(text_[at_]) || text_[at_] == '-')) {
    if (text_.substr(at_).starts_with("->")) break;
    ++at_;
  }
  if (at_ == begin) fail(fmt::format("a name is missing behind '{}'", mark));
  return std::string(text_.substr(begin, at_ - begin));
}

bool Scanner::next_is_number() {
  const char c = peek();
  return is_digit(c) || (c == '-' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]));
}

std::string Scanner::number() {
  if (!next_is_number()) fail_expecting("a number");
  const std::size_t begin = at_++;
  while (at_ < text_.size()) {
    const char c = text_[at_], before = text_[at_ - 1];
    const bool is_sign = (c == '+' || c == '-') && (before == 'e' || before == 'E');
    if (!is_digit(c) && c != '.' && c != 'e' && c != 'E' && !is_sign) break;
    ++at_;
  }
  return std::string(text_.substr(begin, at_ - begin));
}

std::string Scanner::string() {
  expect("\"");
  std::string text;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (text_[at_] == '\\') ++at_;
    if (at_ < text_.size()) text += text_[at_++];
  }
  if (at_ >= text_.size()) fail("a string does not end");
  ++at_;
  return text;
}

std::string Scanner::up_to_closing() {
  const std::size_t begin = at_;
  std::int64_t depth = 1;
  bool in_string = false;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '"') in_string = !in_string;
    if (in_string) continue;
    if (c == '<') ++depth;
    if (c == '>' && text_[at_ - 2] != '-' && --depth == 0) return std::string(text_.substr(begin, at_ - 1 - begin));
  }
  at_ = begin;
  fail("a '<' is not closed");
}

void Scanner::skip_parentheses() {
  expect("(");
  std::int64_t depth = 1;
  while (depth > 0) {
    const char c = peek();
    if (c == '\0') fail("a '(' is not closed");
    if (c == '"') {
      string();
      continue;
    }
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    ++at_;
  }
}

}  // namespace lockstep::exchange::mlir
