#include <charconv>
#include <unordered_map>

#include <lockstep/error.h>
#include <lockstep/moved_from.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"
#include "engine/text/longest_matcher.h"
#include "engine/text/vocabulary_form.h"

namespace lockstep::data {
namespace {

class Bytes final : public Vocabulary::Form {
 public:
  Bytes() {
    for (int i = 0; i < 256; ++i) tokens_.emplace_back(1, static_cast<char>(i));
  }
  std::int64_t size() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    tokens.reserve(text.size());
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    return tokens;
  }
  const std::string* bytes_of(std::int32_t token) const override {
    return token >= 0 && token < 256 ? &tokens_[static_cast<std::size_t>(token)] : nullptr;
  }

 private:
  std::vector<std::string> tokens_;
};

class TokenList final : public Vocabulary::Form {
 public:
  TokenList(std::string_view text, const std::string& file) {
    std::size_t line = 0;
    while (!text.empty()) {
      ++line;
      const std::size_t end = text.find('\n');
      std::string_view spelled = text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (spelled.ends_with('\r')) spelled.remove_suffix(1);
      const auto fail = [&](const std::string& what) {
        throw DataError("[read_token_list] " + file + ", line " + std::to_string(line) + ": " + what);
      };
      std::string token;
      if (!unescape(spelled, token)) fail("an escape in " + shown(spelled) + "; expected \\n, \\t, \\r, \\\\ or \\xHH");
      if (token.empty()) fail("the token is empty; expected one byte at least");
      const auto [place, is_new] = numbers_.emplace(token, static_cast<std::int32_t>(tokens_.size()));
      if (!is_new) fail("token " + shown(spelled) + " stands on line " + std::to_string(place->second + 1) + " too");
      tokens_.push_back(std::move(token));
    }
    if (tokens_.empty()) throw DataError("[read_token_list] " + file + " is empty; expected one token a line");
    for (std::size_t i = 0; i < tokens_.size(); ++i) matcher_.add(tokens_[i], static_cast<std::int32_t>(i));
    matcher_.finish();
    numbers_.clear();
  }
  std::int64_t size() const override { return std::ssize(tokens_); }
  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> tokens;
    const std::vector<std::int32_t> longest = matcher_.longest_at(text);
    for (std::size_t at = 0; at < text.size();) {
      const std::int32_t token = longest[at];
      if (token < 0) {
        throw DataError("[encode] byte " + std::to_string(at) + ": no token stands for " + shown(text.substr(at)) +
                        "; add one to the token list, or one for each byte");
      }
      tokens.push_back(token);
      at += tokens_[static_cast<std::size_t>(token)].size();
    }
    return tokens;
  }
  const std::string* bytes_of(std::int32_t token) const override {
    return token >= 0 && token < size() ? &tokens_[static_cast<std::size_t>(token)] : nullptr;
  }

 private:
  static bool unescape(std::string_view spelled, std::string& token) {
    for (std::size_t i = 0; i < spelled.size(); ++i) {
      if (spelled[i] != '\\') {
        token += spelled[i];
        continue;
      }
      const char kind = ++i < spelled.size() ? spelled[i] : '\0';
      if (kind == 'x') {
        unsigned value = 0;
        const std::string_view digits = spelled.substr(i + 1, 2);
        const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
        if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2) return false;
        token += static_cast<char>(value);
        i += 2;
        continue;
      }
      const std::size_t which = std::string_view("ntr\\").find(kind);
      if (kind == '\0' || which == std::string_view::npos) return false;
      token += "\n\t\r\\"[which];
    }
    return true;
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  LongestMatcher matcher_;
};

}  // namespace

std::int64_t Vocabulary::size() const { return lockstep::detail::held(form_, "[vocabulary]").size(); }

std::vector<std::int32_t> Vocabulary::encode(std::string_view text) const {
  return lockstep::detail::held(form_, "[vocabulary]").encode(text);
}

std::string Vocabulary::decode(std::span<const std::int32_t> tokens) const {
  const Form& form = lockstep::detail::held(form_, "[vocabulary]");
  std::string text;
  for (const std::int32_t token : tokens) {
    const std::string* bytes = form.bytes_of(token);
    if (bytes == nullptr) {
      throw ValueError("[decode] token " + std::to_string(token) + " of a vocabulary of " +
                       std::to_string(form.size()) + "; it stands for nothing");
    }
    text += *bytes;
  }
  return text;
}

Vocabulary byte_vocabulary() { return Vocabulary(std::make_shared<Bytes>()); }

Vocabulary parse_token_list(std::string_view text, const std::string& file) {
  return Vocabulary(std::make_shared<TokenList>(text, file));
}

Vocabulary read_token_list(const std::filesystem::path& path) {
  const MappedFile file(path, "read_token_list");
  return parse_token_list(as_text(file.bytes()), file.name());
}

}  // namespace lockstep::data
