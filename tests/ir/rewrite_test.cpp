#include "engine/ir/rewrite.h"

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/ir/mapped.h"
#include "tests/support/expect_error.h"

namespace lockstep::ir {

using ops::operator+;
using ops::operator-;
using ops::operator*;
using tests::error_text;
using tests::make_function;

namespace {

FunctionPtr example() {
  return make_function(
      {{float32, {2}, {}}, {float32, {2}, {"batch"}}},
      [](Builder&, std::span<const Value> x) {
        const Value e = ops::exp(x[0]);
        return std::vector{ops::mul(e, x[1]), ops::tanh(ops::mul(x[1], x[1]))};
      },
      AxisSizes({{"batch", 2}}));
}

}  // namespace

TEST_CASE("a rule that takes nothing copies the function") {
  const FunctionPtr f = example();
  const FunctionPtr g =
      rewrite(*f, [](Builder&, const Equation&, std::span<const Var>) { return std::optional<std::vector<Var>>(); });
  CHECK(g->equals(*f));
}

TEST_CASE("a rule replaces the equations it takes") {
  const FunctionPtr f = rewrite(
      *example(), [](Builder& builder, const Equation& e, std::span<const Var> in) -> std::optional<std::vector<Var>> {
        if (e.primitive->name == "tanh") return std::vector{in[0]};
        if (e.primitive->name != "mul") return std::nullopt;
        return builder.apply(ops::primitives::add(), in);
      });
  CHECK(f->print(0) ==
        "{ lambda [batch=2]; a:f32[2] b:f32[2]{batch}.\n"
        "  let c:f32[2] = exp a\n"
        "      d:f32[2]{batch} = pvary[axes=batch] c\n"
        "      e:f32[2]{batch} = add d b\n"
        "      f:f32[2]{batch} = add b b\n"
        "  in (e,f) }");
}

TEST_CASE("provenance is kept") {
  Builder builder;
  const Var x = builder.input({float32, {}, {}});
  builder.set_provenance({std::make_shared<const std::string>("layer"), true});
  const FunctionPtr f = builder.finish(builder.apply(ops::primitives::neg(), {x}));
  const FunctionPtr g = rewrite(*f, [](Builder& b, const Equation&, std::span<const Var> in) {
    return std::optional(b.apply(ops::primitives::exp(), in));
  });
  CHECK(*g->equations()[0].provenance.scope == "layer");
  CHECK(g->equations()[0].provenance.backward);
}

TEST_CASE("a rule must replace every output") {
  CHECK(error_text<IrError>([] {
          rewrite(*example(),
                  [](Builder&, const Equation&, std::span<const Var>) { return std::optional(std::vector<Var>()); });
        }) == "rewrite: the rule gave 0 values for the 1 outputs of\n  c:f32[2] = exp a");
}

}  // namespace lockstep::ir
