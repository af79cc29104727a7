// Parses regular expressions of ECMAScript's syntax, with a bound on how deep groups stand in each other.
#include "engine/core/text/pattern_syntax.h"

#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include <fmt/format.h>

namespace lockstep::detail {
namespace {

using Bytes = TextPattern::Bytes;
using Part = PatternNode::Kind;

constexpr int deepest_group = 100;
constexpr std::size_t most_repeats = 1000;

/// Thrown and caught in this file.
struct Mistake {
  std::string text;
};

template <class F>
Bytes bytes_that(const F& is_member) {
  Bytes bytes;
  for (int c = 0; c < 256; ++c) bytes[static_cast<std::size_t>(c)] = is_member(c);
  return bytes;
}

bool is_digit(int c) { return c >= '0' && c <= '9'; }
bool is_alpha(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/// The set of \d, \w, \s and their complements.
std::optional<Bytes> class_escape(char letter) {
  switch (letter) {
    case 'd':
      return bytes_that(is_digit);
    case 'D':
      return ~bytes_that(is_digit);
    case 'w':
      return bytes_that(is_word);
    case 'W':
      return ~bytes_that(is_word);
    case 's':
      return bytes_that(is_space);
    case 'S':
      return ~bytes_that(is_space);
    default:
      return std::nullopt;
  }
}

/// The set of [:name:].
std::optional<Bytes> named_class(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, bool (*)(int)>, 9> classes = {{
      {"alpha", is_alpha},
      {"digit", is_digit},
      {"alnum", [](int c) { return is_alpha(c) || is_digit(c); }},
      {"lower", [](int c) { return c >= 'a' && c <= 'z'; }},
      {"upper", [](int c) { return c >= 'A' && c <= 'Z'; }},
      {"space", is_space},
      {"punct", [](int c) { return c > ' ' && c < 127 && !is_alpha(c) && !is_digit(c); }},
      {"xdigit", [](int c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }},
      {"w", is_word},
  }};
  for (const auto& [known, is_member] : classes) {
    if (known == name) return bytes_that(is_member);
  }
  return std::nullopt;
}

PatternNode of_kind(Part kind) {
  PatternNode node;
  node.kind = kind;
  return node;
}

PatternNode of_bytes(const Bytes& bytes) {
  PatternNode node = of_kind(Part::bytes);
  node.bytes = bytes;
  return node;
}

PatternNode of_byte(char c) {
  Bytes bytes;
  bytes.set(static_cast<unsigned char>(c));
  return of_bytes(bytes);
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  PatternNode parse() {
    PatternNode root = alternatives();
    if (at_ < text_.size()) fail("')' without '('");
    return root;
  }
  std::size_t groups() const { return groups_; }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw Mistake{fmt::format("byte {}: {}", at_, what)}; }
  bool is_at(std::string_view part) const { return text_.substr(at_).starts_with(part); }
  bool take(std::string_view part) {
    if (!is_at(part)) return false;
    at_ += part.size();
    return true;
  }

  PatternNode alternatives() {
    PatternNode all = of_kind(Part::alternatives);
    do {
      all.parts.push_back(sequence());
    } while (take("|"));
    if (all.parts.size() > 1) return all;
    PatternNode only = std::move(all.parts.front());
    return only;
  }

  PatternNode sequence() {
    PatternNode all = of_kind(Part::sequence);
    while (at_ < text_.size() && !is_at("|") && !is_at(")")) all.parts.push_back(repeated(atom()));
    return all;
  }

  PatternNode atom() {
    if (is_at("*") || is_at("+") || is_at("?") || is_at("{"))
      fail(fmt::format("nothing before '{}' to repeat", text_[at_]));
    if (take("(")) return group();
    if (take("[")) return of_bytes(bracket());
    if (take("\\")) return escape();
    if (take("^")) return of_kind(Part::begin);
    if (take("$")) return of_kind(Part::end);
    if (take(".")) return of_bytes(bytes_that([](int c) { return c != '\n' && c != '\r'; }));
    return of_byte(text_[at_++]);
  }

  PatternNode group() {
    PatternNode node = of_kind(Part::group);
    if (is_at("?=") || is_at("?!") || is_at("?<")) fail("lookahead and lookbehind are not known here");
    if (!take("?:")) {
      if (is_at("?")) fail("'(?' that is not '(?:'");
      node.group = ++groups_;
    }
    if (++depth_ > deepest_group) fail(fmt::format("more than {} groups inside of each other", deepest_group));
    node.parts.push_back(alternatives());
    --depth_;
    if (!take(")")) fail("'(' without ')'");
    return node;
  }

  PatternNode escape() {
    if (at_ == text_.size()) fail("'\\' at the end");
    const char letter = text_[at_];
    if (letter == 'b' || letter == 'B') {
      ++at_;
      return of_kind(letter == 'b' ? Part::boundary : Part::inside);
    }
    if (letter >= '1' && letter <= '9') fail("references to groups are not known here");
    if (const auto bytes = class_escape(letter)) {
      ++at_;
      return of_bytes(*bytes);
    }
    return of_byte(escaped_byte());
  }

  /// After the backslash: what is one byte.
  char escaped_byte() {
    if (at_ == text_.size()) fail("'\\' at the end");
    const char letter = text_[at_++];
    switch (letter) {
      case 't':
        return '\t';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 'f':
        return '\f';
      case 'v':
        return '\v';
      case '0':
        return '\0';
      case 'x':
        return hexadecimal();
      default:
        break;
    }
    if (is_word(static_cast<unsigned char>(letter)) && letter != '_') {
      --at_;
      fail(fmt::format("'\\{}' is not known here", letter));
    }
    return letter;
  }

  char hexadecimal() {
    int value = 0;
    for (int i = 0; i < 2; ++i) {
      const int c = at_ < text_.size() ? static_cast<unsigned char>(text_[at_]) : 0;
      if (std::isxdigit(c) == 0) fail("'\\x' needs two hexadecimal digits");
      value = value * 16 + (is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
      ++at_;
    }
    return static_cast<char>(value);
  }

  Bytes bracket() {
    const bool is_complement = take("^");
    Bytes bytes;
    while (!take("]")) {
      if (at_ == text_.size()) fail("'[' without ']'");
      if (const auto all = set_in_bracket()) {
        bytes |= *all;
        continue;
      }
      const int first = byte_in_bracket();
      int last = first;
      if (is_at("-") && !is_at("-]")) {
        ++at_;
        if (at_ == text_.size()) fail("'[' without ']'");
        if (set_in_bracket()) fail("a range that ends in a set");
        last = byte_in_bracket();
        if (last < first) fail("a range that ends before it begins");
      }
      bytes |= bytes_that([&](int c) { return c >= first && c <= last; });
    }
    return is_complement ? ~bytes : bytes;
  }

  std::optional<Bytes> set_in_bracket() {
    if (take("[:")) {
      const std::size_t end = text_.find(":]", at_);
      const auto bytes = end == std::string_view::npos ? std::nullopt : named_class(text_.substr(at_, end - at_));
      if (!bytes)
        fail("'[:' that begins no known class; they are alpha, digit, alnum, lower, upper, space, punct, xdigit, w");
      at_ = end + 2;
      return bytes;
    }
    if (is_at("[.") || is_at("[=")) fail("'[.' and '[=' are not known here");
    if (!is_at("\\") || at_ + 1 == text_.size()) return std::nullopt;
    const auto bytes = class_escape(text_[at_ + 1]);
    if (bytes) at_ += 2;
    return bytes;
  }

  int byte_in_bracket() {
    if (take("\\b")) return '\b';
    if (take("\\")) return static_cast<unsigned char>(escaped_byte());
    const int c = static_cast<unsigned char>(text_[at_]);
    if (c >= 128) fail("'[...]' with a character that is not ASCII; write alternatives, (a|b)");
    ++at_;
    return c;
  }

  PatternNode repeated(PatternNode part) {
    PatternNode node = of_kind(Part::repeat);
    if (take("*")) {
      node.most = PatternNode::unbounded;
    } else if (take("+")) {
      node.least = 1;
      node.most = PatternNode::unbounded;
    } else if (take("?")) {
      node.most = 1;
    } else if (take("{")) {
      bounds(node);
    } else {
      return part;
    }
    node.is_greedy = !take("?");
    node.parts.push_back(std::move(part));
    if (is_at("*") || is_at("+") || is_at("?") || is_at("{"))
      fail(fmt::format("nothing before '{}' to repeat", text_[at_]));
    return node;
  }

  void bounds(PatternNode& node) {
    node.least = node.most = number();
    if (take(",")) node.most = is_at("}") ? PatternNode::unbounded : number();
    if (!take("}")) fail("'{' without '}'");
    if (node.most < node.least) fail("'{m,n}' with n below m");
  }

  std::size_t number() {
    std::size_t value = 0;
    const std::size_t begin = at_;
    for (; at_ < text_.size() && is_digit(static_cast<unsigned char>(text_[at_])); ++at_) {
      value = value * 10 + static_cast<std::size_t>(text_[at_] - '0');
      if (value > most_repeats) fail(fmt::format("more than {} repeats", most_repeats));
    }
    if (at_ == begin) fail("'{' needs a number");
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t groups_ = 0;
  int depth_ = 0;
};

}  // namespace

bool is_word(int c) { return is_digit(c) || is_alpha(c) || c == '_'; }

PatternSyntax parse_pattern(std::string_view pattern) {
  PatternSyntax syntax;
  Parser parser(pattern);
  try {
    syntax.root = parser.parse();
    syntax.groups = parser.groups();
  } catch (const Mistake& mistake) {
    syntax.mistake = mistake.text;
  }
  return syntax;
}

}  // namespace lockstep::detail
