#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/parallel.h>

#include "tests/support/expect_error.h"

// A collective that is refused is named as it was called, whatever it is made of.

using namespace lockstep;

namespace {

struct Called {
  std::string name;
  std::function<Array(const Array& x, const std::string& axis)> call;
};

const std::vector<Called>& collectives() {
  static const std::vector<Called> all = {
      {"psum", [](const Array& x, const std::string& axis) { return psum(x, {axis}); }},
      {"pmean", [](const Array& x, const std::string& axis) { return pmean(x, {axis}); }},
      {"pmax", [](const Array& x, const std::string& axis) { return pmax(x, {axis}); }},
      {"pmin", [](const Array& x, const std::string& axis) { return pmin(x, {axis}); }},
      {"all_gather", [](const Array& x, const std::string& axis) { return all_gather(x, axis); }},
      {"all_gather_invariant", [](const Array& x, const std::string& axis) { return all_gather_invariant(x, axis); }},
      {"psum_scatter", [](const Array& x, const std::string& axis) { return psum_scatter(x, axis); }},
      {"all_to_all", [](const Array& x, const std::string& axis) { return all_to_all(x, axis, 0, 0); }},
      {"ppermute",
       [](const Array& x, const std::string& axis) {
         return ppermute(x, axis, {{0, 1}});
       }},
      {"pshuffle",
       [](const Array& x, const std::string& axis) {
         return pshuffle(x, axis, {1, 0, 3, 2});
       }},
  };
  return all;
}

void in_map(const std::function<Array(const Array&)>& body) {
  pmap(body,
       {.mesh = Mesh({{"batch", 4}}, devices("cpu:0")), .in = {sharded("batch")}, .out = {replicated}})(ones({16, 4}));
}

bool begins_with(const std::string& text, const std::string& start) { return text.rfind(start, 0) == 0; }

}  // namespace

TEST_CASE("a collective of what is reduced already names itself") {
  for (const Called& c : collectives()) {
    CAPTURE(c.name);
    const std::string text = tests::error_text<MeshError>(
        [&] { in_map([&](const Array& x) { return c.call(psum(x, {"batch"}), "batch"); }); });
    INFO(text);
    CHECK(begins_with(text, c.name + " given f32[4,4]"));
    CHECK(tests::contains(text, "it is invariant along batch"));
    CHECK(tests::contains(text, "; instead "));
  }
  tests::expect_error<MeshError>(
      [&] { static_cast<void>(in_map([](const Array& x) { return pmean(psum(x, {"batch"}), {"batch"}); })); },
      "it is its own mean");
}

TEST_CASE("a collective over an axis that nobody binds names itself") {
  std::vector<Called> all = collectives();
  all.push_back({"axis_index", [](const Array&, const std::string& axis) { return axis_index(axis); }});
  all.push_back({"axis_size", [](const Array& x, const std::string& axis) { return x * axis_size(axis); }});
  for (const Called& c : all) {
    CAPTURE(c.name);
    const std::string inside =
        tests::error_text<MeshError>([&] { in_map([&](const Array& x) { return c.call(x, "rows"); }); });
    INFO(inside);
    CHECK(begins_with(inside, c.name + ": unbound axis \"rows\""));
    const std::string outside = tests::error_text<MeshError>([&] { c.call(ones({4, 4}), "rows"); });
    CHECK(begins_with(outside, c.name + ": unbound axis \"rows\""));
  }
}
