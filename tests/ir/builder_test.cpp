#include "engine/ir/builder.h"

#include <doctest/doctest.h>

#include <lockstep/error.h>

#include "tests/ir/mapped.h"
#include "tests/support/expect_error.h"

namespace lockstep::ir {

using ops::operator+;
using ops::operator-;
using ops::operator*;
using tests::contains;
using tests::error_text;
using tests::make_function;
using tests::mesh;

namespace {

const AxisSizes both = mesh({{"batch", 4}, {"model", 2}});
const ArrayType whole{float32, {2}, {}};
const ArrayType cut{float32, {2}, {"batch"}};
const ArrayType cut_twice{float32, {2}, {"batch", "model"}};

}  // namespace

TEST_CASE("a value used by many varying ones gets one pvary, right behind its definition") {
  const FunctionPtr f = make_function(
      {cut, whole, cut_twice},
      [](Builder&, std::span<const Value> x) {
        const Value w = ops::exp(x[1]);
        const Value first = x[0] + w;
        const Value second = x[0] * w;
        const Value third = ops::sub(w, first);
        const Value across = x[2] + w;
        const Value again = w * x[2];
        return std::vector{second, third, across, again, x[0] + x[1]};
      },
      both);
  CHECK(f->print(0) ==
        "{ lambda [batch=4 model=2]; a:f32[2]{batch} b:f32[2] c:f32[2]{batch,model}.\n"
        "  let d:f32[2]{batch} = pvary[axes=batch] b\n"
        "      e:f32[2] = exp b\n"
        "      f:f32[2]{batch} = pvary[axes=batch] e\n"
        "      g:f32[2]{batch,model} = pvary[axes=batch,model] e\n"
        "      h:f32[2]{batch} = add a f\n"
        "      i:f32[2]{batch} = mul a f\n"
        "      j:f32[2]{batch} = sub f h\n"
        "      k:f32[2]{batch,model} = add c g\n"
        "      l:f32[2]{batch,model} = mul g c\n"
        "      m:f32[2]{batch} = add a d\n"
        "  in (i,j,k,l,m) }");
}

TEST_CASE("explicit pvary is the same one") {
  const FunctionPtr f = make_function(
      {cut, whole},
      [](Builder& builder, std::span<const Value> x) {
        const Value once = ops::pvary(x[1], {"batch"});
        const Value twice =
            ops::apply_one(ops::primitives::pvary(), {x[1]}, {{"axes", std::vector<std::string>{"batch"}}});
        CHECK(once.var() == twice.var());
        CHECK(builder.pvary(once.var(), {"batch"}) == once.var());
        const Value further = ops::pvary(once, {"batch", "model"});
        CHECK(further.type().varying == AxisSet{"batch", "model"});
        return std::vector{x[0] + x[1], once, further};
      },
      both);
  CHECK(tests::count(*f, "pvary") == 2);
}

TEST_CASE("a reference to a type outlives the equations that follow") {
  Builder builder;
  const Var x = builder.input(whole);
  const ArrayType& type = builder.type(x);
  Var v = x;
  for (int i = 0; i < 1000; ++i) v = builder.apply(ops::primitives::neg(), {v})[0];
  CHECK(&type == &builder.type(x));
  CHECK(type == whole);
}

TEST_CASE("equations carry the builder's provenance") {
  Builder builder;
  const Var x = builder.input(whole);
  builder.set_provenance({std::make_shared<const std::string>("block/dense"), true});
  const FunctionPtr f = builder.finish(builder.apply(ops::primitives::neg(), {x}));
  CHECK(*f->equations()[0].provenance.scope == "block/dense");
  CHECK(f->equations()[0].provenance.backward);
}

TEST_CASE("a function is copied in, with its own provenance where it has one") {
  Builder inner(both);
  const Var a = inner.input(whole);
  const Var b = inner.input(cut);
  const Var doubled = inner.apply(ops::primitives::add(), {a, a})[0];
  inner.set_provenance({std::make_shared<const std::string>("inner"), false});
  const FunctionPtr g = inner.finish(inner.apply(ops::primitives::mul(), {doubled, b}));

  Builder outer(both);
  const Var x = outer.input(whole);
  const Var y = outer.input(cut);
  outer.set_provenance({std::make_shared<const std::string>("outer"), true});
  const Var once = outer.inline_function(*g, std::vector{x, y})[0];
  CHECK(*outer.provenance().scope == "outer");
  CHECK_FALSE(outer.provenance().backward == false);
  const FunctionPtr f = outer.finish({once});
  CHECK(f->equals(*g));
  CHECK(*f->equations()[0].provenance.scope == "outer");
  CHECK(*f->equations().back().provenance.scope == "inner");
  CHECK(f->equations().back().provenance.backward);
}

TEST_CASE("a function copied onto more varying arguments is typed anew") {
  const FunctionPtr g = make_function(
      {whole, cut}, [](Builder&, std::span<const Value> x) { return std::vector{ops::psum(x[0] * x[1], {"batch"})}; },
      both);
  const FunctionPtr f = make_function(
      {cut_twice, cut},
      [&](Builder& builder, std::span<const Value> x) {
        return std::vector{Value(builder, builder.inline_function(*g, std::vector{x[0].var(), x[1].var()})[0])};
      },
      both);
  CHECK(f->print(0) ==
        "{ lambda [batch=4 model=2]; a:f32[2]{batch,model} b:f32[2]{batch}.\n"
        "  let c:f32[2]{batch,model} = pvary[axes=model] b\n"
        "      d:f32[2]{batch,model} = mul a c\n"
        "      e:f32[2]{model} = psum[axes=batch] d\n"
        "  in (e,) }");
}

TEST_CASE("builder errors") {
  const FunctionPtr g = make_function(
      {cut}, [](Builder&, std::span<const Value> x) { return std::vector{-x[0]}; }, both);
  Builder builder(both);
  const Var x = builder.input(whole);
  CHECK(error_text<IrError>([&] {
          builder.apply(ops::primitives::add(), {x, Var{9}});
        }) == "add: var 9 is not of this builder, which has 1 vars; pass it in as an input");
  CHECK(error_text<IrError>([&] { builder.pvary(Var{9}, {"batch"}); }) ==
        "pvary: var 9 is not of this builder, which has 1 vars; pass it in as an input");
  CHECK(error_text<IrError>([&] {
          builder.inline_function(*g, std::vector{x, x});
        }) == "inline_function: got 2 arguments for a function of 1 inputs");
  CHECK(error_text<IrError>([&] { builder.inline_function(*g, std::vector{x}); }) ==
        "inline_function: argument 0 is f32[2], expected f32[2]{batch} or one that varies along more axes");
  CHECK(contains(error_text<MeshError>([&] { builder.pvary(x, {"time"}); }), "pvary: unbound axis \"time\""));
  CHECK(contains(error_text<MeshError>([&] {
                   builder.input({float32, {}, {"time"}});
                 }),
                 "input: unbound axis \"time\""));
  CHECK_THROWS_AS(builder.apply(ops::primitives::add(), {x, builder.input({float32, {3}, {}})}), ShapeError);
  CHECK_THROWS_AS(builder.apply(ops::primitives::psum(), {x}, {{"axes", std::vector<std::string>{"batch"}}}),
                  MeshError);
  CHECK(error_text<IrError>([&] { builder.finish({Var{77}}); }) ==
        "finish: var 77 is not of this builder, which has 2 vars; pass it in as an input");
}

}  // namespace lockstep::ir
