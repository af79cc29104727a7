// Patterns of paths and names: what is none, and that matching takes time in proportion to the text.
#include <chrono>
#include <string>
#include <vector>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "engine/core/text/text_pattern.h"
#include "tests/bad_inputs/rows.h"

namespace lockstep::tests {
namespace {

using detail::TextPattern;

void map_of(const std::string& pattern) { LayoutMap({{pattern, sharded("a")}}); }

bool matches(const std::string& pattern, const std::string& text) {
  std::string mistake;
  const auto compiled = TextPattern::compile(pattern, mistake);
  REQUIRE_MESSAGE(compiled.has_value(), pattern << ": " << mistake);
  return compiled->matches(text);
}

std::string pattern_replaced(const std::string& pattern, const std::string& text, const std::string& by) {
  std::string mistake;
  const auto compiled = TextPattern::compile(pattern, mistake);
  REQUIRE_MESSAGE(compiled.has_value(), pattern << ": " << mistake);
  return compiled->replace(text, by).value_or("no match");
}

}  // namespace

TEST_CASE("bad inputs 132: patterns that are none") {
  all_refused(
      132, {[] { map_of("dense("); },
            [] { map_of("dense)"); },
            [] { map_of("*dense"); },
            [] { map_of("+"); },
            [] { map_of("a**"); },
            [] { map_of("a{2"); },
            [] { map_of("a{}"); },
            [] { map_of("a{3,2}"); },
            [] { map_of("a{1001}"); },
            [] { map_of("(((((a{200}){200})){200}))"); },
            [] { map_of("[a"); },
            [] { map_of("[z-a]"); },
            [] { map_of("[[:nothing:]]"); },
            [] { map_of("[a-\\d]"); },
            [] { map_of("[\u00E9]"); },
            [] { map_of("a\\"); },
            [] { map_of("\\q"); },
            [] { map_of("\\x4"); },
            [] { map_of("(a)\\1"); },
            [] { map_of("(?=a)a"); },
            [] { map_of("(?!a)b"); },
            [] { map_of("(?<=a)b"); },
            [] { map_of("(?i)a"); },
            [] { map_of(std::string(300, '(') + "a" + std::string(300, ')')); },
            [] { map_of(std::string(20000, 'a')); },
            [] {
              PrecisionPolicy().with_rules({{"a(", "float32"}});
            },
            [] {
              PrecisionPolicy().with_rules({{"a", "float32"}, {"a", "float16"}});
            },
            [] { PrecisionPolicy("mixed"); },
            [] {
              exchange::import_weights(Tree::dict({{"a", Tree(ones({1}))}}), Tree(), {{"a", ones({1})}}, {{"(", "a"}});
            }});
}

TEST_CASE("patterns match all of a text, as ECMAScript's do") {
  CHECK(matches("", ""));
  CHECK_FALSE(matches("", "a"));
  CHECK(matches("blocks/\\d+/(norm|attention)/.*", "blocks/12/norm/gamma"));
  CHECK_FALSE(matches("blocks/\\d+/norm", "blocks/x/norm"));
  CHECK(matches("a{2,3}", "aaa"));
  CHECK_FALSE(matches("a{2,3}", "aaaa"));
  CHECK(matches("(a|ab)(c|bcd)(d*)", "abcd"));
  CHECK(matches("^a$", "a"));
  CHECK(matches("[^/]+/[[:alpha:]_]+", "x1/kernel_a"));
  CHECK(matches("[]a-]*", "") == false);
  CHECK(matches("[a\\-\\]]*", "a-]"));
  CHECK(matches("\\w+\\.\\w+\\b", "a_1.b"));
  CHECK(matches("(a*)*", "aaaa"));
  CHECK(matches("(a|)+b", "aab"));
  CHECK(matches("\\x41\\.\\/", "A./"));
  CHECK(matches(".*", "\xC3\xA9"));
  CHECK_FALSE(matches(".*", "a\nb"));
  CHECK(pattern_replaced("(.*)\\.(weight|bias)", "layer.0.weight", "$1/$2") == "layer.0/weight");
  CHECK(pattern_replaced("(a*?)(a*)", "aaa", "[$1][$2]") == "[][aaa]");
  CHECK(pattern_replaced("(a+)(b)?", "aa", "[$1][$2]$$[$&]") == "[aa][]$[aa]");
  CHECK(pattern_replaced("(a|ab)(.*)", "abc", "$1-$2") == "a-bc");
  CHECK(pattern_replaced("x", "y", "$1") == "no match");
}

TEST_CASE("bad inputs 133: long names and patterns that take std::regex for ever, or its stack") {
  row(133, [] {
    const auto start = std::chrono::steady_clock::now();
    const std::string name(100000, 'a');
    CHECK(matches(".*", name));
    CHECK_FALSE(matches("(a+)+b", name));
    CHECK_FALSE(matches("(a|aa)+b", name));
    CHECK_FALSE(matches("(.*)*(.*)*x", name));
    CHECK(pattern_replaced("(a+)+", name, "$1").size() == 100000);
    CHECK(LayoutMap({{"(a+)+b", sharded("a")}}).at(name) == replicated);
    CHECK(PrecisionPolicy().with_rules({{"(a+)+b", "float16"}}).of_variable(name).param == float32);
    all_refused(133, {[&] {
                  exchange::import_weights(Tree::dict({{"b", Tree(ones({1}))}}), Tree(),
                                           {{name.substr(0, 60), ones({1})}}, {{"(a+)+b", "b"}});
                }});
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
  });
}

}  // namespace lockstep::tests
