#include <array>
#include <map>
#include <optional>
#include <queue>
#include <tuple>
#include <unordered_map>

#include <lockstep/error.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"
#include "engine/files/json_reader.h"
#include "engine/text/unicode_classes.h"
#include "engine/text/vocabulary_form.h"

namespace lockstep::data {
namespace {

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw DataError("[read_bpe_vocabulary] " + file + what);
}

/// GPT-2 writes each byte as a character that prints: those of Latin-1 that do as themselves, the others from 256 on.
std::map<char32_t, char> characters_of_bytes() {
  std::map<char32_t, char> bytes;
  char32_t next = 256;
  for (unsigned b = 0; b < 256; ++b) {
    const bool prints = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    bytes.emplace(prints ? static_cast<char32_t>(b) : next++, static_cast<char>(b));
  }
  return bytes;
}

/// The bytes of a token as it is spelled; none where a character stands for no byte.
std::optional<std::string> bytes_of_spelling(std::string_view spelled, const std::map<char32_t, char>& bytes) {
  std::string result;
  for (std::size_t at = 0; at < spelled.size();) {
    const CodePoint c = code_point_at(spelled, at);
    const auto found = bytes.find(c.value);
    if (!c.is_valid || found == bytes.end()) return std::nullopt;
    result += found->second;
    at += c.size;
  }
  return result;
}

struct Merge {
  std::int32_t rank = 0;
  std::int32_t whole = 0;
};

class BytePairs final : public Vocabulary::Form {
 public:
  BytePairs(std::string_view vocab, const std::string& vocab_file, std::string_view merges,
            const std::string& merges_file) {
    const std::map<char32_t, char> bytes = characters_of_bytes();
    read_tokens(vocab, vocab_file, bytes);
    for (const auto& [character, byte] : bytes) {
      const auto found = numbers_.find(std::string(1, byte));
      if (found == numbers_.end()) {
        fail(vocab_file, ": no token stands for byte " + std::to_string(static_cast<unsigned char>(byte)) +
                             "; expected one for each of the 256");
      }
      bytes_[static_cast<unsigned char>(byte)] = found->second;
    }
    read_merges(merges, merges_file, bytes);
  }

  std::int64_t size() const override { return std::ssize(tokens_); }
  const std::string* bytes_of(std::int32_t token) const override {
    return token >= 0 && token < size() ? &tokens_[static_cast<std::size_t>(token)] : nullptr;
  }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    for (const std::string_view word : gpt2_words(text)) encode_word(word, tokens);
    return tokens;
  }

 private:
  void read_tokens(std::string_view text, const std::string& file, const std::map<char32_t, char>& bytes) {
    const json::Parsed parsed = json::parse(text, 1);
    if (!parsed.repeated.empty()) fail(file, ": token " + shown(parsed.repeated) + " appears twice");
    if (!parsed.value || parsed.value->entries() == nullptr || parsed.value->entries()->empty()) {
      fail(file, " is no JSON object of tokens; expected {\"token\": number, ...}");
    }
    const json::Value::Entries& vocabulary = *parsed.value->entries();
    tokens_.resize(vocabulary.size());
    std::vector<bool> taken(vocabulary.size());
    for (const auto& [spelled, number] : vocabulary) {
      if (number.whole().value_or(vocabulary.size()) >= vocabulary.size()) {
        fail(file, ": token " + shown(spelled) + " has number " + shown(number.to_string()) + "; expected 0 to " +
                       std::to_string(vocabulary.size() - 1));
      }
      const auto place = static_cast<std::size_t>(*number.whole());
      if (taken[place]) fail(file, ": number " + std::to_string(place) + " is given to two tokens");
      taken[place] = true;
      // A special token may be spelled with anything; it stands for its own text.
      tokens_[place] = bytes_of_spelling(spelled, bytes).value_or(spelled);
      numbers_.emplace(tokens_[place], static_cast<std::int32_t>(place));
    }
  }

  std::int32_t number_of(std::string_view spelled, const std::map<char32_t, char>& bytes, const std::string& file,
                         std::size_t line) const {
    const std::optional<std::string> token = bytes_of_spelling(spelled, bytes);
    const auto found = token ? numbers_.find(*token) : numbers_.end();
    if (found != numbers_.end()) return found->second;
    fail(file, ", line " + std::to_string(line) + ": " + shown(spelled) + " is no token of the vocabulary");
  }

  void read_merges(std::string_view text, const std::string& file, const std::map<char32_t, char>& bytes) {
    std::size_t line = 0;
    std::int32_t rank = 0;
    while (!text.empty()) {
      ++line;
      const std::size_t end = text.find('\n');
      std::string_view pair = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (pair.ends_with('\r')) pair.remove_suffix(1);
      if (pair.empty() || (line == 1 && pair.starts_with("#version"))) continue;
      const std::size_t space = pair.find(' ');
      if (space == std::string_view::npos || pair.find(' ', space + 1) != std::string_view::npos) {
        fail(file,
             ", line " + std::to_string(line) + ": two tokens with a space between expected, found " + shown(pair));
      }
      const std::string_view left = pair.substr(0, space);
      const std::string_view right = pair.substr(space + 1);
      const std::uint64_t key = key_of(number_of(left, bytes, file, line), number_of(right, bytes, file, line));
      const std::int32_t whole = number_of(std::string(left) + std::string(right), bytes, file, line);
      if (!merges_.emplace(key, Merge{rank++, whole}).second) {
        fail(file, ", line " + std::to_string(line) + ": the pair " + shown(pair) + " appears twice");
      }
    }
  }

  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(left) << 32U | static_cast<std::uint32_t>(right);
  }

  /// Merges the pair of the lowest rank, the first of such, until there is none. A queue of pairs over a list of pieces:
  /// n log n steps, however long a word is.
  void encode_word(std::string_view word, std::vector<std::int32_t>& tokens) const {
    struct Piece {
      std::int32_t token;
      std::size_t previous;
      std::size_t next;
    };
    constexpr std::size_t none = SIZE_MAX;
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < word.size(); ++i) {
      pieces.push_back(
          {bytes_[static_cast<unsigned char>(word[i])], i == 0 ? none : i - 1, i + 1 == word.size() ? none : i + 1});
    }
    using Candidate = std::tuple<std::int32_t, std::size_t, std::int32_t, std::int32_t>;  // rank, place, left, right
    std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
    const auto consider = [&](std::size_t left) {
      if (left == none || pieces[left].next == none) return;
      const std::int32_t a = pieces[left].token;
      const std::int32_t b = pieces[pieces[left].next].token;
      const auto found = merges_.find(key_of(a, b));
      if (found != merges_.end()) candidates.emplace(found->second.rank, left, a, b);
    };
    for (std::size_t i = 0; i + 1 < pieces.size(); ++i) consider(i);
    while (!candidates.empty()) {
      const auto [rank, left, a, b] = candidates.top();
      candidates.pop();
      Piece& piece = pieces[left];
      // One of the two was merged otherwise meanwhile.
      if (piece.token != a || piece.next == none || pieces[piece.next].token != b) continue;
      const std::size_t right = piece.next;
      piece.token = merges_.find(key_of(a, b))->second.whole;
      piece.next = pieces[right].next;
      pieces[right].token = -1;
      if (piece.next != none) pieces[piece.next].previous = left;
      consider(piece.previous);
      consider(left);
    }
    for (std::size_t at = word.empty() ? none : 0; at != none; at = pieces[at].next) tokens.push_back(pieces[at].token);
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::unordered_map<std::uint64_t, Merge> merges_;
  std::array<std::int32_t, 256> bytes_{};
};

}  // namespace

Vocabulary parse_bpe(std::string_view vocab, const std::string& vocab_file, std::string_view merges,
                     const std::string& merges_file) {
  return Vocabulary(std::make_shared<BytePairs>(vocab, vocab_file, merges, merges_file));
}

Vocabulary read_bpe_vocabulary(const std::filesystem::path& vocab, const std::filesystem::path& merges) {
  const MappedFile tokens(vocab, "read_bpe_vocabulary");
  const MappedFile pairs(merges, "read_bpe_vocabulary");
  return parse_bpe(as_text(tokens.bytes()), tokens.name(), as_text(pairs.bytes()), pairs.name());
}

}  // namespace lockstep::data
