#include <cmath>
#include <limits>

#include <doctest/doctest.h>

#include <lockstep/attrs.h>
#include <lockstep/error.h>

#include "tests/support/expect_error.h"

namespace lockstep {

using tests::error_text;

namespace {

using Ints = std::vector<std::int64_t>;
using Strings = std::vector<std::string>;

class Tagged final : public AttrObject {
 public:
  explicit Tagged(int tag) : tag_(tag) {}
  std::uint64_t hash() const override { return static_cast<std::uint64_t>(tag_) / 10; }
  bool equals(const AttrObject& other) const override { return dynamic_cast<const Tagged&>(other).tag_ == tag_; }
  std::string print(int) const override { return "{ tagged " + std::to_string(tag_) + " }"; }

 private:
  int tag_;
};

std::shared_ptr<const AttrObject> tagged(int tag) { return std::make_shared<Tagged>(tag); }

// Values that look alike but are all different.
const std::vector<std::pair<AttrValue, std::string>>& values() {
  static const std::vector<std::pair<AttrValue, std::string>> all = {
      {true, "true"},
      {false, "false"},
      {std::int64_t{1}, "1"},
      {std::int64_t{-3}, "-3"},
      {1.0, "1.0"},
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {0.1, "0.1"},
      {1e300, "1e+300"},
      {5e-324, "5e-324"},
      {std::numeric_limits<double>::infinity(), "inf"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {std::numeric_limits<double>::quiet_NaN(), "nan"},
      {-std::numeric_limits<double>::quiet_NaN(), "-nan"},
      {std::string("f32"), "\"f32\""},
      {std::string("1"), "\"1\""},
      {std::string("say \"hi\"\n\\"), "\"say \\\"hi\\\"\\x0a\\\\\""},
      {std::string(), "\"\""},
      {float32, "f32"},
      {bool_, "bool"},
      {Ints{}, "[]"},
      {Ints{1}, "[1]"},
      {Ints{0, -1}, "[0,-1]"},
      {Strings{}, "{}"},
      {Strings{"batch"}, "batch"},
      {Strings{"batch", "model"}, "batch,model"},
      {Strings{"f32"}, "{f32}"},
      {Strings{"true"}, "{true}"},
      {Strings{"nan", "x"}, "{nan,x}"},
      {Strings{"", "a b"}, "{\"\",\"a b\"}"},
      {std::vector<Ints>{}, "()"},
      {std::vector<Ints>{{}}, "([])"},
      {std::vector<Ints>{{1}, {0, 2}}, "([1],[0,2])"},
      {std::vector<Strings>{}, "{()}"},
      {std::vector<Strings>{{}}, "({})"},
      {std::vector<Strings>{{"batch", ""}, {}}, "({batch,\"\"},{})"},
      {tagged(10), "{ tagged 10 }"},
      {tagged(11), "{ tagged 11 }"},
  };
  return all;
}

}  // namespace

TEST_CASE("attribute values print unlike one another") {
  for (const auto& [value, text] : values()) CHECK(to_string(value) == text);
  CHECK(to_string(Attrs{{"keep", true}, {"axes", Ints{0, 1}}}) == "axes=[0,1] keep=true");
}

TEST_CASE("attributes are equal where every value is, kind and bits") {
  for (std::size_t i = 0; i < values().size(); ++i) {
    for (std::size_t k = 0; k < values().size(); ++k) {
      const Attrs a{{"x", values()[i].first}};
      const Attrs b{{"x", values()[k].first}};
      CAPTURE(values()[i].second);
      CAPTURE(values()[k].second);
      CHECK((a == b) == (i == k));
      // Tagged objects of one ten collide on purpose: equality must not rest on the hash.
      const bool objects = i >= values().size() - 2 && k >= values().size() - 2;
      if (!objects) CHECK((a.hash() == b.hash()) == (i == k));
    }
  }
  CHECK(Attrs{{"f", tagged(10)}} == Attrs{{"f", tagged(10)}});
  CHECK(Attrs{{"a", true}} != Attrs{{"b", true}});
  CHECK(Attrs{{"a", true}}.hash() != Attrs{{"b", true}}.hash());
  CHECK(Attrs{{"a", true}} != Attrs{});
}

TEST_CASE("the order in which attributes are given does not matter") {
  const Attrs a{{"b", true}, {"a", std::int64_t{1}}};
  const Attrs b = Attrs{}.with("a", std::int64_t{1}).with("b", false).with("b", true);
  CHECK(a == b);
  CHECK(a.hash() == b.hash());
  CHECK(a.without("b") == Attrs{{"a", std::int64_t{1}}});
  const Attrs none = a.without("b").without("a");
  CHECK(none.empty());
  CHECK(none == Attrs{});
  CHECK(none.hash() == Attrs{}.hash());
  CHECK(none.hash() != a.hash());
  CHECK(a.without("c") == a);
  CHECK(a.has("a"));
  CHECK_FALSE(a.has("c"));
  CHECK(a.get<std::int64_t>("a") == 1);
  CHECK(a.get_or<std::int64_t>("c", 7) == 7);
  CHECK(a.get_or<std::int64_t>("a", 7) == 1);
}

TEST_CASE("attribute errors") {
  const Attrs attrs{{"axis", std::int64_t{1}}, {"keep", true}};
  CHECK(error_text<IrError>([&] { (void)attrs.at("axes"); }) ==
        "attribute \"axes\" is missing; given are [axis=1 keep=true]");
  CHECK(error_text<IrError>([&] { (void)attrs.get<Ints>("axis"); }) ==
        "attribute axis=1 is of kind int, which is not the kind this op reads");
  CHECK(error_text<IrError>([] { Attrs{{"a", true}, {"a", false}}; }) == "attributes: \"a\" is given twice");
}

}  // namespace lockstep
