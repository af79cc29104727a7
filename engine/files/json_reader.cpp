#include "engine/files/json_reader.h"

#include <cerrno>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "engine/files/open_file.h"

namespace lockstep::json {
namespace {

/// Told of each part of a text, of which it makes the value; the parser stops where an answer is false.
class Reader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Reader(int deepest) : deepest_(deepest) {}

  Parsed take(bool is_whole) {
    if (!is_whole) parsed_.value.reset();
    return std::move(parsed_);
  }

  bool null() override { return put(Value()); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_array(std::size_t) override { return go_deeper(Value::list()); }
  bool end_array() override { return come_back(); }
  bool start_object(std::size_t) override { return go_deeper(Value::object()); }
  bool end_object() override { return come_back(); }
  bool key(string_t& name) override {
    const auto [entry, is_new] = open_.back()->entries()->try_emplace(name);
    if (!is_new) parsed_.repeated = name;
    entry_ = &entry->second;
    return is_new;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override { return false; }

 private:
  bool put(Value value) {
    last_ = &placed(std::move(value));
    return true;
  }

  /// Where the parser is: what is open does not move while something within it is.
  Value& placed(Value value) {
    if (open_.empty()) return parsed_.value.emplace(std::move(value));
    if (Value::List* items = open_.back()->items()) return items->emplace_back(std::move(value));
    return *entry_ = std::move(value);
  }

  bool go_deeper(Value opened) {
    put(std::move(opened));
    open_.push_back(last_);
    parsed_.is_too_deep = std::ssize(open_) > deepest_;
    return !parsed_.is_too_deep;
  }

  bool come_back() {
    open_.pop_back();
    return true;
  }

  int deepest_;
  Parsed parsed_;
  std::vector<Value*> open_;
  Value* entry_ = nullptr;
  Value* last_ = nullptr;
};

}  // namespace

Parsed parse(std::string_view text, int deepest) {
  Reader reader(deepest);
  const bool is_whole = nlohmann::json::sax_parse(text.begin(), text.end(), &reader);
  return reader.take(is_whole);
}

std::optional<Value> parse_file(const std::filesystem::path& file) {
  try {
    return parse(files::read_text(file)).value;
  } catch (const files::FileError& error) {
    const bool is_folder = error.error() == 0 && files::foreign_kind(file).empty();
    if (is_folder || error.error() == ENOENT || error.error() == ENOTDIR) return std::nullopt;
    throw DataError(error.what());
  }
}

}  // namespace lockstep::json
