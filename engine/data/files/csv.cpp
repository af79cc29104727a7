#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <lockstep/data_files.h>
#include <lockstep/error.h>

#include "engine/data/files/file_bytes.h"
#include "engine/data/files/mapped_file.h"

namespace lockstep::data {
namespace {

/// Splits a text into lines of fields: `text` has their bytes without quotes, `ends` where each ends.
class CsvParser {
 public:
  CsvParser(std::string_view bytes, const std::string& file, char separator)
      : bytes_(bytes), file_(file), separator_(separator) {
    if (bytes_.starts_with("\xEF\xBB\xBF")) at_ = 3;  // a byte order mark
  }

  bool is_done() const { return at_ == bytes_.size(); }
  std::size_t line() const { return line_; }
  [[noreturn]] void fail(const std::string& what) const {
    throw DataError("[read_csv] " + file_ + ", line " + std::to_string(line_) + ", byte " + std::to_string(at_) + ": " +
                    what);
  }

  /// One line; how many fields it has.
  std::size_t read_line(std::string& text, std::vector<std::size_t>& ends) {
    std::size_t fields = 0;
    while (true) {
      read_field(text);
      ends.push_back(text.size());
      ++fields;
      if (is_done()) return fields;
      const char c = bytes_[at_++];
      if (c == separator_) continue;
      if (c == '\r' && !is_done() && bytes_[at_] == '\n') ++at_;
      ++line_;
      return fields;
    }
  }

 private:
  bool at_line_end() const { return bytes_[at_] == '\n' || bytes_[at_] == '\r'; }

  void read_field(std::string& text) {
    const std::size_t field = at_;
    if (!is_done() && bytes_[at_] == '"') {
      read_quoted(text);
      if (!is_done() && bytes_[at_] != separator_ && !at_line_end()) {
        fail("text behind a closing quote: " + shown(bytes_.substr(at_)));
      }
      return;
    }
    while (!is_done() && bytes_[at_] != separator_ && !at_line_end()) {
      const char c = bytes_[at_];
      if (c == '"') fail("a quote inside of a field that began without one: " + shown(bytes_.substr(field)));
      append(c, text);
    }
  }
  void read_quoted(std::string& text) {
    const std::size_t line = line_;
    const std::size_t opening = at_++;
    while (!is_done()) {
      const char c = bytes_[at_];
      if (c == '"' && bytes_.substr(at_, 2) != "\"\"") {
        ++at_;
        return;
      }
      if (c == '"') ++at_;
      if (c == '\n' || (c == '\r' && bytes_.substr(at_, 2) != "\r\n")) ++line_;
      append(c, text);
    }
    line_ = line;
    at_ = opening;
    fail("a quote that does not end");
  }
  void append(char c, std::string& text) {
    if (c == '\0') fail("NUL; a CSV file is text");
    text += c;
    ++at_;
  }

  std::string_view bytes_;
  const std::string& file_;
  char separator_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
};

/// Whether a number that no float holds is too small for one, and not too large: where its first digit other than 0 stands.
bool is_small(std::string_view number) {
  const std::size_t mantissa_end = std::min(number.find_first_of("eE"), number.size());
  const std::string_view mantissa = number.substr(0, mantissa_end);
  const std::size_t point = std::min(mantissa.find('.'), mantissa.size());
  const std::size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return true;
  const auto digits = static_cast<std::int64_t>(point) - static_cast<std::int64_t>(first);  // above 0: before the point
  std::string_view written = number.substr(std::min(mantissa_end + 1, number.size()));
  if (written.starts_with('+')) written.remove_prefix(1);
  std::int64_t exponent = 0;
  const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), exponent);
  if (error == std::errc::result_out_of_range) return written.starts_with('-');
  return exponent + digits < 0;
}

template <class T>
std::optional<T> number_in(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.starts_with('+') && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range && is_small(text)) return text.starts_with('-') ? -T{0} : T{0};
  }
  if (error != std::errc()) return std::nullopt;
  return value;
}

}  // namespace

CsvTable parse_csv(std::string_view bytes, const std::string& file, const CsvOptions& options) {
  if (options.separator == '"' || options.separator == '\n' || options.separator == '\r' || options.separator == '\0') {
    throw ValueError("[read_csv] the separator is a quote, a line end or NUL; take another character");
  }
  CsvParser parser(bytes, file, options.separator);
  CsvTable table;
  table.file_ = file;
  if (parser.is_done()) parser.fail("the file is empty; expected a line at least");
  std::size_t fields = 0;
  if (options.header) {
    std::string text;
    std::vector<std::size_t> ends;
    parser.read_line(text, ends);
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      std::string column = text.substr(begin, end - begin);
      if (std::find(table.columns_.begin(), table.columns_.end(), column) != table.columns_.end()) {
        throw DataError("[read_csv] " + file + ", line 1: two columns are called " + shown(column));
      }
      table.columns_.push_back(std::move(column));
      begin = end;
    }
    fields = table.columns_.size();
  }
  while (!parser.is_done()) {
    const std::size_t line = parser.line();
    table.lines_.push_back(line);
    const std::size_t found = parser.read_line(table.text_, table.ends_);
    if (fields == 0) fields = found;
    if (found == fields) continue;
    throw DataError("[read_csv] " + file + ", line " + std::to_string(line) + ": " + std::to_string(fields) +
                    " fields expected, " + std::to_string(found) + " found");
  }
  for (std::size_t i = table.columns_.size(); i < fields; ++i) table.columns_.push_back(std::to_string(i));
  return table;
}

CsvTable read_csv(const std::filesystem::path& path, const CsvOptions& options) {
  const MappedFile file(path, "read_csv");
  return parse_csv(as_text(file.bytes()), file.name(), options);
}

std::int64_t CsvTable::rows() const { return std::ssize(lines_); }

std::size_t CsvTable::place_of(const std::string& column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found != columns_.end()) return static_cast<std::size_t>(found - columns_.begin());
  std::string known;
  for (std::size_t i = 0; i < columns_.size() && i < 16; ++i) known += (i == 0 ? "" : ", ") + shown(columns_[i]);
  throw DataError("[read_csv] " + file_ + " has no column " + shown(column) + "; there are " + known);
}

std::string_view CsvTable::field(std::int64_t row, std::size_t place) const {
  const std::size_t field = static_cast<std::size_t>(row) * columns_.size() + place;
  const std::size_t begin = field == 0 ? 0 : ends_[field - 1];
  return std::string_view(text_).substr(begin, ends_[field] - begin);
}

std::string_view CsvTable::text(std::int64_t row, const std::string& column) const {
  const std::size_t place = place_of(column);
  if (row < 0 || row >= rows()) {
    throw DataError("[read_csv] row " + std::to_string(row) + " of " + file_ + ", which has " + std::to_string(rows()) +
                    "; give rows from 0 on, below that");
  }
  return field(row, place);
}

HostTable CsvTable::numbers(const std::vector<std::string>& names) const {
  std::vector<float> values(static_cast<std::size_t>(rows()) * names.size());
  for (std::size_t k = 0; k < names.size(); ++k) {
    const std::size_t place = place_of(names[k]);
    for (std::int64_t row = 0; row < rows(); ++row) {
      const std::string_view text = field(row, place);
      const std::optional<float> value = number_in<float>(text);
      if (!value) {
        throw DataError("[read_csv] " + file_ + ", line " + std::to_string(lines_[static_cast<std::size_t>(row)]) +
                        ", column " + shown(names[k]) + ": " + shown(text) + " is no number of float32");
      }
      values[static_cast<std::size_t>(row) * names.size() + k] = *value;
    }
  }
  return host_table(values, Shape{rows(), std::ssize(names)});
}

HostTable CsvTable::integers(const std::string& column) const {
  std::vector<std::int32_t> values;
  const std::size_t place = place_of(column);
  for (std::int64_t row = 0; row < rows(); ++row) {
    const std::string_view text = field(row, place);
    const std::optional<std::int32_t> value = number_in<std::int32_t>(text);
    if (!value) {
      throw DataError("[read_csv] " + file_ + ", line " + std::to_string(lines_[static_cast<std::size_t>(row)]) +
                      ", column " + shown(column) + ": " + shown(text) + " is no whole number of 32 bits");
    }
    values.push_back(*value);
  }
  return host_table(values, Shape{rows()});
}

}  // namespace lockstep::data
