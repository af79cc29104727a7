// Binary files of tokens: windows of one as rows, and writing one.

#include <cstring>
#include <utility>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"
#include "engine/files/open_file.h"

namespace lockstep::data {
namespace {

void check_token_type(DType dtype, const std::string& who) {
  if (dtype == DType::uint16 || dtype == DType::uint32 || dtype == DType::int32) return;
  throw ValueError("[" + who + "] tokens of " + std::string(name(dtype)) + "; expected uint16, uint32 or int32");
}

class TokenWindows final : public Source {
 public:
  TokenWindows(const std::filesystem::path& path, TokenFileOptions options)
      : file_(path, "token_windows"), options_(options) {
    check_token_type(options_.dtype, "token_windows");
    if (options_.length < 1 || options_.length > INT32_MAX || options_.vocabulary < 0) {
      throw ValueError("[token_windows] length is " + std::to_string(options_.length) + ", vocabulary " +
                       std::to_string(options_.vocabulary) +
                       "; a length is at least 1, of 32 bits, and a vocabulary 0 or more");
    }
    width_ = size_of(options_.dtype);
    const auto tokens = static_cast<std::int64_t>(file_.size() / width_);
    if (file_.size() % width_ != 0 || tokens <= options_.length) {
      throw DataError("[token_windows] " + file_.name() + " has " + std::to_string(file_.size()) +
                      " bytes; expected whole tokens of " + std::to_string(width_) + " bytes, " +
                      std::to_string(options_.length + 1) + " at least for one window and the token behind it");
    }
    rows_ = (tokens - 1) / options_.length;
  }
  std::int64_t rows() const override { return rows_; }
  Row row(std::int64_t i, const RowKey&) const override {
    if (i < 0 || i >= rows_) {
      throw DataError("[token_windows] row " + std::to_string(i) + " of " + std::to_string(rows_) + " windows");
    }
    const auto length = static_cast<std::size_t>(options_.length);
    const std::size_t begin = begin_of(i);
    const auto bytes = file_.bytes(begin, (length + 1) * width_);
    std::vector<std::int32_t> x(length), y(length);
    for (std::size_t t = 0; t <= length; ++t) {
      const std::int32_t token = token_at(bytes, t, begin);
      if (t < length) x[t] = token;
      if (t > 0) y[t - 1] = token;
    }
    return {{"x", host_table(x, Shape{options_.length})}, {"y", host_table(y, Shape{options_.length})}};
  }
  void expect(std::int64_t i) const override {
    if (i >= 0 && i < rows_) file_.expect(begin_of(i), static_cast<std::size_t>(options_.length + 1) * width_);
  }

 private:
  std::size_t begin_of(std::int64_t i) const { return static_cast<std::size_t>(i * options_.length) * width_; }
  std::int32_t token_at(std::span<const std::byte> bytes, std::size_t t, std::size_t begin) const {
    std::int64_t token = 0;
    if (options_.dtype == DType::int32) {
      std::int32_t value = 0;
      std::memcpy(&value, bytes.data() + t * width_, sizeof value);
      token = value;
    } else {
      std::memcpy(&token, bytes.data() + t * width_, width_);
    }
    const std::int64_t limit = options_.vocabulary > 0 ? options_.vocabulary : std::int64_t{INT32_MAX} + 1;
    if (token < 0 || token >= limit) {
      throw DataError("[token_windows] " + file_.name() + ", byte " + std::to_string(begin + t * width_) + ": token " +
                      std::to_string(token) + "; expected 0 to " + std::to_string(limit - 1));
    }
    return static_cast<std::int32_t>(token);
  }

  MappedFile file_;
  TokenFileOptions options_;
  std::size_t width_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace

SourcePtr token_windows(const std::filesystem::path& path, const TokenFileOptions& options) {
  return std::make_shared<TokenWindows>(path, options);
}

void write_tokens(const std::filesystem::path& path, std::span<const std::int32_t> tokens, DType dtype) {
  check_token_type(dtype, "write_tokens");
  std::string bytes;
  for (const std::int32_t token : tokens) {
    if (token < 0 || (dtype == DType::uint16 && token > 0xFFFF)) {
      throw DataError("[write_tokens] token " + std::to_string(token) + " for a file of " + std::string(name(dtype)) +
                      "; take another dtype");
    }
    bytes.append(reinterpret_cast<const char*>(&token), size_of(dtype));
  }
  files::with_error<DataError>("write_tokens", [&] { files::replace_text(path, bytes); });
}

}  // namespace lockstep::data
