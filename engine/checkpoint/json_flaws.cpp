#include "engine/checkpoint/json_flaws.h"

#include <set>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::checkpoint {
namespace {

using Json = nlohmann::json;

/// Told of each part of a text; the parser stops where an answer is false.
class Listener final : public nlohmann::json_sax<Json> {
 public:
  explicit Listener(int deepest) : deepest_(deepest) {}
  JsonFlaws take() { return std::move(flaws_); }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_array(std::size_t) override { return go_deeper(); }
  bool end_array() override { return come_back(); }
  bool start_object(std::size_t) override { return go_deeper(); }
  bool end_object() override { return come_back(); }
  bool key(string_t& name) override {
    if (open_.back().insert(name).second) return true;
    flaws_.repeated = name;
    return false;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool go_deeper() {
    open_.emplace_back();
    flaws_.is_too_deep = std::ssize(open_) > deepest_;
    return !flaws_.is_too_deep;
  }
  bool come_back() {
    open_.pop_back();
    return true;
  }

  int deepest_;
  std::vector<std::set<std::string>> open_;
  JsonFlaws flaws_;
};

}  // namespace

JsonFlaws flaws_of(std::string_view json, int deepest) {
  Listener listener(deepest);
  Json::sax_parse(json.begin(), json.end(), &listener);
  return listener.take();
}

}  // namespace lockstep::checkpoint
