#include "engine/text/unicode_classes.h"
#include "engine/text/vocabulary_form.h"

// GPT-2's pattern: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+

namespace lockstep::data {
namespace {

enum class CharacterKind { letter, number, white_space, other };

CharacterKind kind_of(const CodePoint& c) {
  if (!c.is_valid) return CharacterKind::other;  // a byte that is no text
  if (is_letter(c.value)) return CharacterKind::letter;
  if (is_number(c.value)) return CharacterKind::number;
  return is_white_space(c.value) ? CharacterKind::white_space : CharacterKind::other;
}

/// The end of the run of one kind that begins at `at`.
std::size_t run_end(std::string_view text, std::size_t at, CharacterKind kind) {
  while (at < text.size()) {
    const CodePoint c = code_point_at(text, at);
    if (kind_of(c) != kind) break;
    at += c.size;
  }
  return at;
}

std::size_t contraction_end(std::string_view text, std::size_t at) {
  for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (text.substr(at, ending.size()) == ending) return at + ending.size();
  }
  return at;
}

/// White space, but for its last character where something follows it: that goes with the next word if it is a space.
std::size_t space_end(std::string_view text, std::size_t at) {
  std::size_t last = at;
  std::size_t end = at;
  while (end < text.size()) {
    const CodePoint c = code_point_at(text, end);
    if (kind_of(c) != CharacterKind::white_space) break;
    last = end;
    end += c.size;
  }
  return end < text.size() && last > at ? last : end;
}

std::size_t word_end(std::string_view text, std::size_t at) {
  const std::size_t contraction = contraction_end(text, at);
  if (contraction > at) return contraction;
  const std::size_t after_space = text[at] == ' ' ? at + 1 : at;
  if (after_space < text.size()) {
    const CharacterKind kind = kind_of(code_point_at(text, after_space));
    if (kind != CharacterKind::white_space) return run_end(text, after_space, kind);
  }
  return space_end(text, at);
}

}  // namespace

std::vector<std::string_view> gpt2_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = word_end(text, at);
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

}  // namespace lockstep::data
