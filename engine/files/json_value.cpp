#include "engine/files/json_value.h"

#include <nlohmann/json.hpp>

#include <lockstep/error.h>

namespace lockstep::json {
namespace {

/// What nlohmann writes of what is no list and no object, and so takes no memory where it ends.
std::string leaf_text(const nlohmann::json& leaf, Utf8 utf8) {
  using Handler = nlohmann::json::error_handler_t;
  try {
    return leaf.dump(-1, ' ', false, utf8 == Utf8::strict ? Handler::strict : Handler::replace);
  } catch (const nlohmann::json::type_error&) {
    throw DataError("[json] a text that is to be written is no UTF-8; write it so");
  }
}

bool is_plain(std::string_view text) {
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '"' || c == '\\') return false;
  }
  return true;
}

class Writer {
 public:
  Writer(std::optional<std::size_t> indent, Utf8 utf8) : indent_(indent), utf8_(utf8) {}

  std::string take() { return std::move(text_); }

  void write(const Value& value) {
    if (const Value::List* items = value.items()) {
      write_all(*items, '[', ']', [&](const Value& item) { write(item); });
    } else if (const Value::Entries* entries = value.entries()) {
      write_all(*entries, '{', '}', [&](const Value::Entries::value_type& entry) {
        write_text(entry.first);
        text_ += indent_ ? ": " : ":";
        write(entry.second);
      });
    } else if (const std::string* text = value.text()) {
      write_text(*text);
    } else if (const std::optional<bool> truth = value.boolean()) {
      text_ += *truth ? "true" : "false";
    } else if (const std::optional<std::int64_t> number = value.integer()) {
      text_ += std::to_string(*number);
    } else if (const std::optional<std::uint64_t> whole = value.whole()) {
      text_ += std::to_string(*whole);
    } else if (const std::optional<double> real = value.number()) {
      text_ += leaf_text(*real, utf8_);
    } else {
      text_ += "null";
    }
  }

 private:
  template <class Items, class WriteOne>
  void write_all(const Items& items, char open, char close, const WriteOne& write_one) {
    text_ += open;
    ++depth_;
    bool is_first = true;
    for (const auto& item : items) {
      if (!is_first) text_ += ',';
      is_first = false;
      break_line();
      write_one(item);
    }
    --depth_;
    if (!is_first) break_line();
    text_ += close;
  }

  void break_line() {
    if (!indent_) return;
    text_ += '\n';
    text_.append(depth_ * *indent_, ' ');
  }

  void write_text(const std::string& text) {
    if (!is_plain(text)) {
      text_ += leaf_text(text, utf8_);
      return;
    }
    text_ += '"';
    text_ += text;
    text_ += '"';
  }

  std::optional<std::size_t> indent_;
  Utf8 utf8_;
  std::string text_;
  std::size_t depth_ = 0;
};

template <class T, class Held>
std::optional<T> held_as(const Held& held) {
  const T* value = std::get_if<T>(&held);
  return value == nullptr ? std::nullopt : std::optional<T>(*value);
}

}  // namespace

std::optional<bool> Value::boolean() const { return held_as<bool>(held_); }
std::optional<std::int64_t> Value::integer() const { return held_as<std::int64_t>(held_); }
std::optional<std::uint64_t> Value::whole() const {
  const std::int64_t* number = std::get_if<std::int64_t>(&held_);
  if (number == nullptr) return held_as<std::uint64_t>(held_);
  return *number < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(*number));
}
std::optional<double> Value::number() const {
  if (const std::int64_t* number = std::get_if<std::int64_t>(&held_)) return static_cast<double>(*number);
  if (const std::uint64_t* number = std::get_if<std::uint64_t>(&held_)) return static_cast<double>(*number);
  return held_as<double>(held_);
}

const Value* Value::find(std::string_view name) const {
  const Entries* all = entries();
  if (all == nullptr) return nullptr;
  const auto found = all->find(name);
  return found == all->end() ? nullptr : &found->second;
}
Value* Value::find(std::string_view name) {
  Entries* all = entries();
  if (all == nullptr) return nullptr;
  const auto found = all->find(name);
  return found == all->end() ? nullptr : &found->second;
}

std::string_view Value::type_name() const {
  if (is_null()) return "null";
  if (text() != nullptr) return "string";
  if (items() != nullptr) return "array";
  if (entries() != nullptr) return "object";
  return boolean() ? "boolean" : "number";
}

Value& Value::operator[](std::string_view name) {
  if (is_null()) held_ = Entries();
  return std::get<Entries>(held_).try_emplace(std::string(name)).first->second;
}

void Value::push_back(Value item) {
  if (is_null()) held_ = List();
  std::get<List>(held_).push_back(std::move(item));
}

std::string Value::to_string(std::optional<std::size_t> indent, Utf8 utf8) const {
  Writer writer(indent, utf8);
  writer.write(*this);
  return writer.take();
}

}  // namespace lockstep::json
