#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/export.h>

namespace lockstep {

/// Whether printed programs show a string without quotes: a letter or '_', then letters, digits and '_'.
bool is_bare_word(std::string_view text);
/// A bare word that stands for a value of its own: true, false, nan, inf or the short name of a dtype.
bool is_reserved_word(std::string_view text);
/// In double quotes; '"', '\' and control characters escaped.
std::string quoted(std::string_view text);
/// As JSON writes it (RFC 8259, section 7).
std::string json_quoted(std::string_view text);
/// As a terminal may show it, which obeys control characters: each as "\x1b", but for the ends of lines, where these are kept,
/// and tabs. For what was read from files.
enum class Lines : std::uint8_t { kept, escaped };
LOCKSTEP_API std::string printable(std::string_view text, Lines lines = Lines::escaped);
/// Behind "a", or "an" where it begins with a vowel: of names, which are read as they are spelt.
LOCKSTEP_API std::string with_article(std::string_view name);
/// As it is where it is a bare word, else quoted.
std::string quoted_unless_bare(std::string_view text);

}  // namespace lockstep
