#include "engine/ir/function.h"

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

const ArrayType x_type{float32, {2, 3}, {}};

FunctionPtr sum_of_products(DType dtype = float32, std::int64_t axis = 0, bool swap = false) {
  const ArrayType type{dtype, {2, 3}, {}};
  return make_function({type, type}, [&](Builder&, std::span<const Value> x) {
    const Value product = swap ? x[1] * x[0] : x[0] * x[1];
    return std::vector{ops::reduce_sum(product, {axis}), product};
  });
}

// a -> a + a with the given var numbers, and types for vars that do not exist.
FunctionPtr numbered(std::uint32_t input, std::uint32_t output) {
  std::vector<ArrayType> types(8, ArrayType{float64, {7}, {}});
  types[input] = x_type;
  types[output] = x_type;
  const Equation add{&ops::primitives::add(), {}, {Var{input}, Var{input}}, {Var{output}}, {}};
  return std::make_shared<const Function>(AxisSizes(), types, std::vector{Var{input}}, std::vector{add},
                                          std::vector{Var{output}});
}

}  // namespace

TEST_CASE("functions are equal up to the numbering of their vars") {
  const FunctionPtr a = numbered(0, 1);
  for (const auto& [input, output] : {std::pair{1U, 0U}, {5U, 7U}, {0U, 1U}}) {
    const FunctionPtr b = numbered(input, output);
    CHECK(a->hash() == b->hash());
    CHECK(a->equals(*b));
    CHECK(a->print(0) == b->print(0));
  }
}

TEST_CASE("functions that differ in anything that has a meaning are not equal") {
  const FunctionPtr a = sum_of_products();
  CHECK(a->equals(*sum_of_products()));
  CHECK(a->hash() == sum_of_products()->hash());
  const auto outputs_swapped = std::make_shared<const Function>(a->axes(), a->types(), a->inputs(), a->equations(),
                                                                std::vector{a->outputs()[1], a->outputs()[0]});
  const auto fewer_outputs = std::make_shared<const Function>(a->axes(), a->types(), a->inputs(), a->equations(),
                                                              std::vector{a->outputs()[0]});
  const auto with_axes = std::make_shared<const Function>(AxisSizes({{"batch", 8}}), a->types(), a->inputs(),
                                                          a->equations(), a->outputs());
  const auto other_axes = std::make_shared<const Function>(AxisSizes({{"batch", 4}}), a->types(), a->inputs(),
                                                           a->equations(), a->outputs());
  const std::vector<FunctionPtr> others = {sum_of_products(float64),
                                           sum_of_products(float32, 1),
                                           sum_of_products(float32, 0, true),
                                           outputs_swapped,
                                           fewer_outputs,
                                           with_axes,
                                           other_axes};
  for (std::size_t i = 0; i < others.size(); ++i) {
    CAPTURE(i);
    CHECK_FALSE(a->equals(*others[i]));
    CHECK_FALSE(others[i]->equals(*a));
    CHECK(a->hash() != others[i]->hash());
    for (std::size_t k = 0; k < i; ++k) CHECK(others[i]->hash() != others[k]->hash());
  }
}

TEST_CASE("sub-functions count by their content") {
  const auto outer = [](const FunctionPtr& body) { return tests::mapped(body, {x_type}, {{"", ""}}, {{"", ""}}); };
  const auto body = [](bool twice) {
    return make_function(
        {x_type}, [&](Builder&, std::span<const Value> x) { return std::vector{twice ? x[0] + x[0] : x[0] * x[0]}; },
        tests::mesh({{"batch", 2}}));
  };
  CHECK(outer(body(true))->equals(*outer(body(true))));
  CHECK(outer(body(true))->hash() == outer(body(true))->hash());
  CHECK_FALSE(outer(body(true))->equals(*outer(body(false))));
  CHECK(outer(body(true))->hash() != outer(body(false))->hash());
}

TEST_CASE("provenance is no part of a function's identity") {
  const auto with_scope = [](const char* scope) {
    Builder builder;
    const Var x = builder.input(x_type);
    builder.set_provenance({std::make_shared<const std::string>(scope), true});
    return builder.finish(builder.apply(ops::primitives::neg(), {x}));
  };
  CHECK(with_scope("a")->equals(*with_scope("b")));
  CHECK(with_scope("a")->hash() == with_scope("b")->hash());
}

TEST_CASE("axis sizes") {
  const AxisSizes axes({{"batch", 4}, {"model", 2}});
  CHECK(axes.has("model"));
  CHECK_FALSE(axes.has("time"));
  CHECK(axes.total() == 8);
  CHECK(AxisSizes().total() == 1);
  CHECK(axes.size("batch", "psum") == 4);
  CHECK(axes.size(AxisSet{"batch", "model"}, "psum") == 8);
  CHECK(error_text<MeshError>([&] { (void)axes.size("time", "psum"); }) ==
        "psum: unbound axis \"time\"; bound here are batch=4 model=2; call it inside pmap over a mesh with this axis, "
        "or inside vmap with this axis_name");
  CHECK(error_text<MeshError>([] { (void)AxisSizes().size("time", "axis_index"); }) ==
        "axis_index: unbound axis \"time\"; no axis is bound here; call it inside pmap over a mesh with this axis, or "
        "inside vmap with this axis_name");
}

TEST_CASE("sub_function wants a function") {
  CHECK(error_text<IrError>([] {
          sub_function(Attrs{{"body", true}}, "body");
        }) == "attribute body=true is no function");
}

}  // namespace lockstep::ir
