#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "engine/files/json_reader.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

// JSON as the engine reads and writes it, against nlohmann's.
namespace lockstep::json {
namespace {

static_assert(!std::is_copy_constructible_v<Value> && std::is_nothrow_move_constructible_v<Value>);

using Random = std::mt19937_64;

std::string drawn_text(Random& random) {
  static const std::vector<std::string> parts = {
      "a", "Zz 9", "\"", "\\", "/", "\n", "\t", "\x01", "\x1f", "\x7f", "\u00e9", "\u20ac", "\b\f\r", "\U0001F600", ""};
  std::string text;
  for (std::uint64_t left = random() % 5; left > 0; --left) text += parts[random() % parts.size()];
  return text;
}

nlohmann::json drawn(Random& random, int depth) {
  const std::uint64_t kinds = depth == 0 ? 7 : 9;
  switch (random() % kinds) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<std::int64_t>(random());
    case 3:
      return random();
    case 4:
      return static_cast<double>(static_cast<std::int64_t>(random())) *
             std::pow(10.0, static_cast<int>(random() % 80) - 50);
    case 5:
      return static_cast<std::int64_t>(random() % 20);
    case 6:
      return drawn_text(random);
    case 7: {
      nlohmann::json list = nlohmann::json::array();
      for (std::uint64_t left = random() % 4; left > 0; --left) list.push_back(drawn(random, depth - 1));
      return list;
    }
    default: {
      nlohmann::json object = nlohmann::json::object();
      for (std::uint64_t left = random() % 4; left > 0; --left) object[drawn_text(random)] = drawn(random, depth - 1);
      return object;
    }
  }
}

/// A text with something taken from it, put into it or changed.
std::string damaged(std::string text, Random& random) {
  const std::size_t at = random() % (text.size() + 1);
  static const std::string bytes = "{}[]\",:0-9.eE\\u \xff\xc3n";
  if (random() % 2 == 0 && at < text.size()) text.erase(at, 1 + random() % 3);
  return text.insert(std::min(at, text.size()), 1, bytes[random() % bytes.size()]);
}

/// Whether some entries of the text have a name twice.
bool has_repeated_names(const std::string& text) {
  std::vector<std::set<std::string>> open;
  bool found = false;
  const auto check = [&](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key) found = !open.back().insert(value.get<std::string>()).second || found;
    return true;
  };
  [[maybe_unused]] const nlohmann::json parsed = nlohmann::json::parse(text, check, false);
  return found;
}

}  // namespace

TEST_CASE("what is drawn is read and written as nlohmann does") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const nlohmann::json expected = drawn(random, 4);
    const std::string text = expected.dump();
    CAPTURE(text);
    const std::optional<Value> read = parse(text).value;
    REQUIRE(read);
    CHECK(read->to_string() == text);
    CHECK(read->to_string(2) == expected.dump(2));
    CHECK(read->type_name() == expected.type_name());
    const std::optional<Value> spaced = parse(expected.dump(3)).value;
    REQUIRE(spaced);
    CHECK(spaced->to_string() == text);
  }
}

TEST_CASE("damaged texts are refused where nlohmann refuses them") {
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 6000; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const std::string text = damaged(drawn(random, 3).dump(), random);
    CAPTURE(text);
    const nlohmann::json expected = nlohmann::json::parse(text, nullptr, false);
    const Parsed read = parse(text);
    if (expected.is_discarded() || has_repeated_names(text)) {
      CHECK_FALSE(read.value);
      ++refused;
    } else {
      REQUIRE(read.value);
      CHECK(read.value->to_string() == expected.dump());
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("numbers, and what they are") {
  const auto read = [](const char* text) { return std::move(parse(text).value.value()); };
  CHECK(read("-1").integer() == -1);
  CHECK_FALSE(read("-1").whole());
  CHECK(read("7").whole() == 7);
  CHECK(read("18446744073709551615").whole() == std::numeric_limits<std::uint64_t>::max());
  CHECK_FALSE(read("18446744073709551615").integer());
  CHECK(read("1.0").number() == 1.0);
  CHECK_FALSE(read("1.0").integer());
  CHECK_FALSE(parse("1e999").value);
  CHECK(Value(std::uint64_t{3}).integer() == 3);
  CHECK(Value(true).boolean() == true);
  CHECK_FALSE(Value(true).integer());
  CHECK(Value(std::numeric_limits<double>::quiet_NaN()).to_string() == "null");
  CHECK(Value(std::vector<std::int64_t>{2, -3}).to_string() == "[2,-3]");
}

TEST_CASE("entries and items") {
  Value value;
  CHECK(value.is_null());
  value["b"] = "text";
  value["a"].push_back(1);
  value["a"].push_back(Value());
  CHECK(value.to_string() == R"({"a":[1,null],"b":"text"})");
  CHECK(*value.find("b")->text() == "text");
  CHECK(value.find("c") == nullptr);
  CHECK(value.find("b")->find("b") == nullptr);
  CHECK(value.find("a")->items()->size() == 2);
  const Value moved = std::move(value);
  CHECK(moved.entries()->size() == 2);
  CHECK(Value::object().to_string(2) == "{}");
  CHECK(Value::list().to_string(2) == "[]");
}

TEST_CASE("flaws: a name twice, lists in lists, what is no UTF-8") {
  CHECK(parse(R"({"a": {"x": 1, "y": 2, "x": 3}})").repeated == "x");
  CHECK_FALSE(parse(R"({"a": 1, "a": 1})").value);
  CHECK(parse("[[[]]]", 3).value);
  CHECK(parse("[[[]]]", 2).is_too_deep);
  CHECK_FALSE(parse("[[[]]]", 2).value);
  CHECK(parse(std::string(1'000'000, '[')).is_too_deep);
  CHECK_FALSE(parse("\"\xff\"").value);
  for (const char* text : {"", " ", "{", "[1,]", "{\"a\" 1}", "1 2", "nul"}) CHECK_FALSE(parse(text).value);
  const Value bad("a\xff");
  tests::expect_error<DataError>([&] { bad.to_string(); }, "[json] a text that is to be written is no UTF-8");
  CHECK(bad.to_string(std::nullopt, Utf8::replaced) == "\"a\uFFFD\"");
}

TEST_CASE("a file") {
  const tests::TemporaryFolder folder;
  CHECK_FALSE(parse_file(folder.path() / "absent"));
  std::ofstream(folder.path() / "one") << "{\"a\": 1}\n";
  CHECK(parse_file(folder.path() / "one")->find("a")->integer() == 1);
  CHECK_FALSE(parse_file(folder.path()));
}

}  // namespace lockstep::json
