#include <limits>
#include <random>

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "engine/ir/text/parse.h"
#include "engine/ir/text/print.h"
#include "tests/ir/mapped.h"
#include "tests/support/expect_error.h"
#include "tests/support/random_program.h"

namespace lockstep::ir {

using ops::operator+;
using ops::operator-;
using ops::operator*;
using tests::contains;
using tests::error_text;
using tests::make_function;

namespace {

FunctionPtr read(std::string_view text) { return parse(text, ops::find_primitive); }

void check_identity(const FunctionPtr& f) {
  const std::string text = f->print(0);
  const FunctionPtr back = read(text);
  CHECK(back->print(0) == text);
  CHECK(back->equals(*f));
  CHECK(back->hash() == f->hash());
}

// A primitive that takes anything, for attributes of every kind.
const Primitive& anything() {
  static const Primitive primitive = [] {
    Primitive p;
    p.name = "anything";
    p.infer = [](const InferContext& context) {
      return std::vector<ArrayType>(context.inputs.begin(), context.inputs.end());
    };
    return p;
  }();
  return primitive;
}

FunctionPtr with_attrs(const Attrs& attrs, std::size_t operands = 1) {
  Builder builder;
  std::vector<Var> inputs;
  for (std::size_t i = 0; i < operands; ++i) inputs.push_back(builder.input({float32, {}, {}}));
  return builder.finish(builder.apply(anything(), inputs, attrs));
}

FunctionPtr read_anything(const std::string& text) {
  return parse(text, [](std::string_view name) { return name == "anything" ? &anything() : nullptr; });
}

}  // namespace

TEST_CASE("a function prints as the design says") {
  const FunctionPtr f = make_function(
      {{float32, {784, 512}, {}}, {float32, {64, 784}, {"batch"}}},
      [](Builder&, std::span<const Value> x) {
        const Value product = ops::apply_one(ops::primitives::dot_general(), {x[1], x[0]},
                                             {{"contract", std::vector<std::vector<std::int64_t>>{{1}, {0}}},
                                              {"batch", std::vector<std::vector<std::int64_t>>{{}, {}}}});
        return std::vector{product, ops::psum(product, {"batch"})};
      },
      tests::mesh({{"batch", 8}}));
  CHECK(f->print(0) ==
        "{ lambda [batch=8]; a:f32[784,512] b:f32[64,784]{batch}.\n"
        "  let c:f32[784,512]{batch} = pvary[axes=batch] a\n"
        "      d:f32[64,512]{batch} = dot_general[batch=([],[]) contract=([1],[0])] b c\n"
        "      e:f32[64,512] = psum[axes=batch] d\n"
        "  in (d,e) }");
  CHECK(print_equation(*f, f->equations()[2]) == "e:f32[64,512] = psum[axes=batch] d");
  check_identity(f);
}

TEST_CASE("sub-functions are indented and read back") {
  const FunctionPtr body = make_function(
      {{float32, {2}, {"batch"}}}, [](Builder&, std::span<const Value> x) { return std::vector{x[0] + x[0]}; },
      tests::mesh({{"batch", 4}}));
  const FunctionPtr f = tests::mapped(body, {{float32, {8}, {}}}, {{"batch"}}, {{"batch"}});
  CHECK(f->print(0) ==
        "{ lambda a:f32[8].\n"
        "  let b:f32[8] = pmap[axes=batch body={ lambda [batch=4]; a:f32[2]{batch}.\n"
        "          let b:f32[2]{batch} = add a a\n"
        "          in (b,) } devices={\"cpu:0\"} in=({batch}) out=({batch}) sizes=[4]] a\n"
        "  in (b,) }");
  check_identity(f);
}

TEST_CASE("functions without inputs, equations or outputs") {
  Builder empty;
  const FunctionPtr nothing = empty.finish({});
  CHECK(nothing->print(0) == "{ lambda.\n  in () }");
  check_identity(nothing);

  Builder pass;
  const Var x = pass.input({DType::key, {3}, {}});
  const FunctionPtr same = pass.finish({x, x});
  CHECK(same->print(0) == "{ lambda a:key[3].\n  in (a,a) }");
  check_identity(same);

  const FunctionPtr no_outputs = with_attrs({}, 0);
  CHECK(no_outputs->print(0) == "{ lambda.\n  let = anything\n  in () }");
  CHECK(read_anything(no_outputs->print(0))->equals(*no_outputs));

  const FunctionPtr two_outputs = with_attrs({}, 2);
  CHECK(two_outputs->print(0) == "{ lambda a:f32[] b:f32[].\n  let c:f32[] d:f32[] = anything a b\n  in (c,d) }");
  CHECK(read_anything(two_outputs->print(0))->equals(*two_outputs));
}

TEST_CASE("names go on after z, also through the words of the format") {
  Builder builder;
  Var v = builder.input({float32, {}, {}});
  // 26 + 26 * 26 + ... reaches "in", "let" and "lambda" only at the third; two letters are enough for "in".
  for (int i = 0; i < 9000; ++i) v = builder.apply(ops::primitives::neg(), {v})[0];
  const FunctionPtr f = builder.finish({v});
  const std::string text = f->print(0);
  CHECK(contains(text, "z:f32[] = neg y\n      aa:f32[] = neg z\n      ab:f32[] = neg aa"));
  CHECK(contains(text, "in:f32[] = neg im\n      io:f32[] = neg in\n"));
  CHECK(contains(text, "zz:f32[] = neg zy\n      aaa:f32[] = neg zz"));
  CHECK(contains(text, "let:f32[] = neg les\n      leu:f32[] = neg let\n"));
  check_identity(f);
}

TEST_CASE("every kind of attribute is read back as itself") {
  using Ints = std::vector<std::int64_t>;
  using Strings = std::vector<std::string>;
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<AttrValue> values = {
      true,
      false,
      std::int64_t{0},
      std::int64_t{-7},
      std::numeric_limits<std::int64_t>::min(),
      std::numeric_limits<std::int64_t>::max(),
      0.0,
      -0.0,
      1.0,
      -2.5,
      0.1,
      1e22,
      1e-7,
      5e-324,
      1.7976931348623157e308,
      inf,
      -inf,
      nan,
      -nan,
      std::bit_cast<double>(std::uint64_t{0x7ff8000000000123}),
      std::bit_cast<double>(std::uint64_t{0xfff0000000000001}),
      std::string(),
      std::string("f32"),
      std::string("3"),
      std::string("a \"b\" \\ \n\t\x7f [x=1] }"),
      float32,
      bool_,
      DType::key,
      complex128,
      Ints{},
      Ints{3},
      Ints{-1, 0},
      Strings{},
      Strings{"batch"},
      Strings{"batch", "model"},
      Strings{""},
      Strings{"f32"},
      Strings{"true", "x"},
      Strings{"lambda"},
      Strings{"a b", "c,d", "\"", "}"},
      std::vector<Ints>{},
      std::vector<Ints>{{}},
      std::vector<Ints>{{}, {1, 2}},
      std::vector<Strings>{},
      std::vector<Strings>{{}},
      std::vector<Strings>{{"batch", ""}, {}, {"x"}},
      std::static_pointer_cast<const AttrObject>(with_attrs({{"deep", std::int64_t{1}}})),
  };
  Attrs all;
  for (std::size_t i = 0; i < values.size(); ++i) {
    CAPTURE(to_string(values[i]));
    const FunctionPtr f = with_attrs({{"x", values[i]}});
    const FunctionPtr back = read_anything(f->print(0));
    const AttrValue& read_value = back->equations()[0].attrs.at("x");
    CHECK(read_value.index() == values[i].index());
    CHECK(back->equals(*f));
    CHECK(back->print(0) == f->print(0));
    all = all.with("x" + std::to_string(i), values[i]);
  }
  const FunctionPtr f = with_attrs(all);
  CHECK(read_anything(f->print(0))->equals(*f));
}

TEST_CASE("random programs are read back") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) check_identity(tests::random_program(seed));
}

TEST_CASE("damaged text is refused or read as what it now says") {
  const FunctionPtr body = make_function(
      {{float32, {2}, {"batch"}}}, [](Builder&, std::span<const Value> x) { return std::vector{x[0] + x[0]}; },
      tests::mesh({{"batch", 4}}));
  const std::string whole = tests::mapped(body, {{float32, {8}, {}}}, {{"batch"}}, {{"batch"}})->print(0);
  const std::string_view pieces = "{}[]()=,.:; \n\"\\-019aexin\0";
  std::mt19937_64 bits(7);
  int read_back = 0;
  int refused = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = whole;
    for (std::uint64_t change = 0; change <= bits() % 3; ++change) {
      const std::size_t place = bits() % text.size();
      const char piece = pieces[bits() % pieces.size()];
      if (bits() % 3 == 0) {
        text.erase(place, 1 + bits() % 8);
      } else if (bits() % 2 == 0) {
        text[place] = piece;
      } else {
        text.insert(place, 1, piece);
      }
      if (text.empty()) text = "{";
    }
    CAPTURE(text);
    try {
      check_identity(read(text));
      ++read_back;
    } catch (const IrError& error) {
      CHECK((contains(error.what(), "parse: line ") || contains(error.what(), "verify: ")));
      ++refused;
    }
  }
  CHECK(read_back > 100);
  CHECK(refused > 1000);
}

TEST_CASE("layout of the text does not matter") {
  const FunctionPtr f = read(
      "{lambda[ batch=2 model = 2 ] ; a:f32[ 2 , 3 ]{ batch , model }\n b:f32[] .\tlet c:f32[2,3]{model,batch}=neg "
      "a\n\n"
      "in(c,) }\n ");
  CHECK(f->print(0) ==
        "{ lambda [batch=2 model=2]; a:f32[2,3]{batch,model} b:f32[].\n  let c:f32[2,3]{batch,model} = neg a\n  in "
        "(c,) }");
}

TEST_CASE("text that is no function is refused with line and column") {
  struct Case {
    const char* text;
    const char* message;
  };
  const Case cases[] = {
      {"", "line 1, column 1: expected \"{\" before a function, found the end"},
      {"{ lamda a:f32[].", "line 1, column 3: expected \"lambda\" before a function's inputs, found \"lamda a:f32[\""},
      {"{ lambda a:f33[].\n in (a,) }", "line 1, column 15: expected a dtype (dtype: got \"f33\""},
      {"{ lambda a:f32[-1].\n in (a,) }", "expected a shape (shape [-1]: expected every extent >= 0)"},
      {"{ lambda a:f32[99999999999999999999].\n in (a,) }", "line 1, column 16: expected an integer"},
      {"{ lambda a:f32[] a:f32[].\n in (a,) }", "expected a new name: \"a\" is already defined"},
      {"{ lambda a f32[].\n in (a,) }", "column 12: expected \":\" after a var that is defined"},
      {"{ lambda a:f32[].\n  let b:f32[] = frob a\n  in (b,) }",
       "line 2, column 17: expected an op; there is no op \"frob\", found \"frob a\""},
      {"{ lambda a:f32[].\n  let b:f32[] neg a\n  in (b,) }",
       "line 2, column 15: expected \"=\" after the outputs of an equation"},
      {"{ lambda a:f32[].\n  let b:f32[] = neg c\n  in (b,) }",
       "line 2, column 21: expected a var that is defined; \"c\" is not, found \"c\""},
      {"{ lambda a:f32[].\n  in (b,) }", "line 2, column 7: expected a var that is defined; \"b\" is not"},
      {"{ lambda a:f32[].\n  in (a a) }", "expected ',' or ')' after an output"},
      {"{ lambda a:f32[].\n  in (a,)", "expected \"}\" after a function, found the end"},
      {"{ lambda a:f32[].\n  in (a,) } x", "line 2, column 13: expected nothing after the function, found \"x\""},
      {"{ lambda a:f32[].\n  let b:f32[] = neg[x=1] a\n  in (b,) }",
       "column 21: expected ']', since neg has no attributes; it has no \"x\""},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axis=1] a\n  in (b,) }",
       "column 28: expected an attribute of reduce_sum: one of axes, sum_blocks; it has no \"axis\""},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=] a\n  in (b,) }", "expected a value"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=1 axes=2] a\n  in (b,) }", "\"axes\" is given twice"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes 1] a\n  in (b,) }",
       "expected \"=\" after an attribute's name"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=1.5.5] a\n  in (b,) }", "expected a number"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=1e999] a\n  in (b,) }", "expected a number"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=nan:7] a\n  in (b,) }",
       "expected the bits of a NaN before this"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=99999999999999999999] a\n  in (b,) }",
       "expected an integer of 64 bits"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=\"abc] a", "expected '\"' after a string, found the end"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=\"a\\n\"] a",
       "expected \\\", \\\\ or \\x and two hexadecimal digits"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=a,true] a", "\"true\" needs braces in a list"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=[1,] a", "expected an integer"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes={a b}] a", "expected \"}\" after names"},
      {"{ lambda a:f32[].\n  let b:f32[] = reduce_sum[axes=([1] [2])] a", "expected \")\" after lists"},
      {"{ lambda [batch=4] a:f32[].\n  in (a,) }", "expected \";\" after the bound axes"},
      {"{ lambda [batch 4]; a:f32[].\n  in (a,) }", "expected \"=\" after an axis name"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const std::string message = error_text<IrError>([&] { read(c.text); });
    CAPTURE(message);
    CHECK(contains(message, "parse: line "));
    CHECK(contains(message, c.message));
  }
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "{ lambda.\n let = scan[body=";
  CHECK(contains(error_text<IrError>([&] { read(deep); }), "expected at most 64 nested functions"));
}

}  // namespace lockstep::ir
