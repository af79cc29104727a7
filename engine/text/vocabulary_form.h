#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/text/vocabularies.h>

namespace lockstep::data {

class Vocabulary::Form {
 public:
  virtual ~Form() = default;
  virtual std::int64_t size() const = 0;
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Null for a token that does not exist.
  virtual const std::string* bytes_of(std::int32_t token) const = 0;
};

/// GPT-2's two files as texts; `vocab_file` and `merges_file` are what errors call them.
Vocabulary parse_bpe(std::string_view vocab, const std::string& vocab_file, std::string_view merges,
                     const std::string& merges_file);
Vocabulary parse_token_list(std::string_view text, const std::string& file);

/// The words into which GPT-2's pattern cuts a text, before each is encoded for itself.
std::vector<std::string_view> gpt2_words(std::string_view text);

}  // namespace lockstep::data
