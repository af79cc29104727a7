#include "engine/core/quoting.h"

#include <algorithm>

#include <lockstep/types.h>

namespace lockstep {

namespace {

bool starts_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_word(char c) { return starts_word(c) || (c >= '0' && c <= '9'); }

/// In double quotes, control characters as two hexadecimal digits behind `prefix`.
std::string escaped(std::string_view text, std::string_view prefix) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += prefix;
      result += hex[byte >> 4];
      result += hex[byte & 15];
    } else {
      result += c;
    }
  }
  return result + '"';
}

}  // namespace

bool is_bare_word(std::string_view text) {
  return !text.empty() && starts_word(text.front()) && std::all_of(text.begin(), text.end(), continues_word);
}

bool is_reserved_word(std::string_view text) {
  if (text == "true" || text == "false" || text == "nan" || text == "inf") return true;
  for (int i = 0; i <= static_cast<int>(DType::key); ++i) {
    if (text == short_name(static_cast<DType>(i))) return true;
  }
  return false;
}

std::string quoted(std::string_view text) { return escaped(text, "\\x"); }
std::string json_quoted(std::string_view text) { return escaped(text, "\\u00"); }

std::string printable(std::string_view text, Lines lines) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string result;
  const auto escape = [&](unsigned char byte) {
    result += "\\x";
    result += hex[byte >> 4];
    result += hex[byte & 15];
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool is_kept = byte == '\t' || (byte == '\n' && lines == Lines::kept);
    // U+0080 to U+009F: some terminals obey them as they do the escape character.
    if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {
      escape(next);
      ++i;
    } else if ((byte < 0x20 && !is_kept) || byte == 0x7f) {
      escape(byte);
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string with_article(std::string_view name) {
  const bool has_vowel = !name.empty() && std::string_view("aeioAEIO").find(name.front()) != std::string_view::npos;
  return (has_vowel ? "an " : "a ") + std::string(name);
}

std::string quoted_unless_bare(std::string_view text) { return is_bare_word(text) ? std::string(text) : quoted(text); }

}  // namespace lockstep
