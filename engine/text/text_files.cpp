// Text files as a string, and as a source of tokenized documents.

#include <algorithm>
#include <utility>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/text/text_files.h>

#include "engine/data/files/mapped_file.h"
#include "engine/text/unicode_classes.h"

namespace lockstep::data {
namespace {

void check_utf8(std::string_view text, const std::string& file, const std::string& who) {
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (!c.is_valid) {
      throw DataError("[" + who + "] " + file + ", byte " + std::to_string(at) + ": byte " + std::to_string(c.value) +
                      " is no UTF-8; expected text in UTF-8");
    }
    at += c.size;
  }
}

class TextDocuments final : public Source {
 public:
  TextDocuments(const std::filesystem::path& path, Vocabulary vocabulary)
      : file_(path, "text_documents"), vocabulary_(std::move(vocabulary)) {
    const std::string_view text = as_text(file_.bytes());
    check_utf8(text, file_.name(), "text_documents");
    const char line_end = text.find('\n') == std::string_view::npos ? '\r' : '\n';
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find(line_end, begin), text.size());
      const std::size_t size = end - begin - (end > begin && text[end - 1] == '\r' ? 1 : 0);
      if (size > 0) lines_.emplace_back(begin, size);
      begin = end + 1;
    }
    if (lines_.empty()) {
      throw DataError("[text_documents] " + file_.name() + " has no line that is not empty; expected one at least");
    }
  }
  std::int64_t rows() const override { return std::ssize(lines_); }
  Row row(std::int64_t i, const RowKey&) const override {
    if (i < 0 || i >= rows()) {
      throw DataError("[text_documents] row " + std::to_string(i) + " of " + std::to_string(rows()) + " lines");
    }
    const auto [begin, size] = lines_[static_cast<std::size_t>(i)];
    const std::vector<std::int32_t> tokens = vocabulary_.encode(as_text(file_.bytes(begin, size)));
    return {{"tokens", host_table(tokens, Shape{std::ssize(tokens)})}};
  }
  void expect(std::int64_t i) const override {
    if (i < 0 || i >= rows()) return;
    const auto [begin, size] = lines_[static_cast<std::size_t>(i)];
    file_.expect(begin, size);
  }

 private:
  MappedFile file_;
  Vocabulary vocabulary_;
  std::vector<std::pair<std::size_t, std::size_t>> lines_;
};

}  // namespace

std::string read_text(const std::filesystem::path& path) {
  const MappedFile file(path, "read_text");
  const std::string_view text = as_text(file.bytes());
  check_utf8(text, file.name(), "read_text");
  return std::string(text);
}

SourcePtr text_documents(const std::filesystem::path& path, Vocabulary vocabulary) {
  return std::make_shared<TextDocuments>(path, std::move(vocabulary));
}

}  // namespace lockstep::data
