#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>

namespace lockstep::data {

/// Text as tokens and back. A handle; made by one of the functions below.
class LOCKSTEP_API Vocabulary {
 public:
  /// How one kind of vocabulary works.
  class Form;

  explicit Vocabulary(std::shared_ptr<const Form> form) : form_(std::move(form)) {}
  std::int64_t size() const;  ///< Tokens are below it.
  /// Throws DataError naming the offset of text that no token stands for.
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// The bytes that the tokens stand for. Throws ValueError for a token that the vocabulary does not have.
  std::string decode(std::span<const std::int32_t> tokens) const;

 private:
  std::shared_ptr<const Form> form_;
};

/// 256 tokens, one for each byte.
LOCKSTEP_API Vocabulary byte_vocabulary();
/// Byte-pair encoding as GPT-2 has it: `vocab` is its vocab.json (token -> number), `merges` its merges.txt (pairs in order
/// of rank). Text is cut into words as GPT-2's pattern does; what the text says of special tokens ("<|endoftext|>") is
/// text like any other. Radford et al., "Language models are unsupervised multitask learners", 2019; Sennrich, Haddow,
/// Birch, ACL 2016. Throws DataError naming file and line for a pair whose parts or whole the vocabulary does not have,
/// numbers that repeat or are no whole numbers, or a byte without a token.
LOCKSTEP_API Vocabulary read_bpe_vocabulary(const std::filesystem::path& vocab, const std::filesystem::path& merges);
/// One token a line, numbered from 0; \n, \t, \r, \\ and \xHH stand for bytes. Text is encoded by the longest token that
/// fits, from the front. Throws DataError naming the line of an empty or repeated token.
LOCKSTEP_API Vocabulary read_token_list(const std::filesystem::path& path);

}  // namespace lockstep::data
