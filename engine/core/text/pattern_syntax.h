#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/text/text_pattern.h"

// What a pattern's text says, before it is an automaton.
namespace lockstep::detail {

/// A part of a pattern.
struct PatternNode {
  enum class Kind : std::uint8_t { empty, bytes, sequence, alternatives, repeat, group, begin, end, boundary, inside };
  Kind kind = Kind::empty;
  TextPattern::Bytes bytes;        ///< Of `bytes`: one of them.
  std::vector<PatternNode> parts;  ///< Of a sequence, alternatives; the one of a repeat or a group.
  std::size_t group = 0;           ///< Of a group: its number; 0 where nothing asks for it.
  std::size_t least = 0;           ///< Of a repeat: how often at least,
  std::size_t most = 0;            ///< and at most, `unbounded` for any number.
  bool is_greedy = true;

  static constexpr std::size_t unbounded = static_cast<std::size_t>(-1);
};

struct PatternSyntax {
  PatternNode root;
  std::size_t groups = 0;
  std::string mistake;  ///< Empty where the text is a pattern.
};

/// Whether \w matches the byte.
bool is_word(int c);

PatternSyntax parse_pattern(std::string_view pattern);

}  // namespace lockstep::detail
