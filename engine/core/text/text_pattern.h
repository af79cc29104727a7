#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>

// Regular expressions for paths and names, which may come from files: matching takes time in proportion to the text's
// length times the pattern's, and memory in proportion to the pattern's, whatever both are.
namespace lockstep::detail {

/// A compiled pattern: ECMAScript's syntax without what no automaton can do, lookahead and references to groups. It goes
/// by bytes: `.` is one of a character's bytes. A pattern has at most 10,000 instructions and 100 groups inside of each other.
class LOCKSTEP_API TextPattern {
 public:
  /// Nothing where the text is no such pattern; then `mistake` says why, and at which byte.
  static std::optional<TextPattern> compile(std::string_view pattern, std::string& mistake);

  /// The same for the patterns of paths that `who` is given. Throws ValueError naming it, the mistake and an example.
  static TextPattern of_paths(std::string_view who, std::string_view pattern, std::string_view example);

  /// Whether the pattern matches all of the text.
  bool matches(std::string_view text) const;
  /// `replacement` with the groups of a match of all of the text in place of $1 to $99, all of it in place of $& and "$" in
  /// place of $$; nothing where the pattern does not match.
  std::optional<std::string> replace(std::string_view text, std::string_view replacement) const;

  using Bytes = std::bitset<256>;
  /// One step of the automaton.
  struct Instruction {
    enum class Kind : std::uint8_t { bytes, split, jump, mark, begin, end, boundary, inside, match };
    Kind kind = Kind::match;
    std::uint32_t first = 0;   ///< Where it goes on; of `bytes` the set's index, of `mark` the slot.
    std::uint32_t second = 0;  ///< Of `split`: where it goes on if the first way leads nowhere.
  };

 private:
  using Slots = std::vector<std::size_t>;
  /// Where groups begin and end in the match that a backtracking search would find first; `slots` of them.
  std::optional<Slots> run(std::string_view text, std::size_t slots) const;

  std::vector<Instruction> program_;
  std::vector<Bytes> sets_;
  std::size_t groups_ = 0;
};

}  // namespace lockstep::detail
