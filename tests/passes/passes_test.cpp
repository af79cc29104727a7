#include <string>

#include <doctest/doctest.h>

#include "engine/ir/text/parse.h"
#include "engine/ir/verify.h"
#include "engine/ops/primitives.h"
#include "engine/passes/pass.h"
#include "tests/passes/golden.h"
#include "tests/support/mapped_program.h"

namespace lockstep::tests {
namespace {

/// The text of a function after a pass.
std::string text_after(ir::FunctionPtr (*pass)(const ir::FunctionPtr&), const std::string& text) {
  return run_pass(pass, text)->print(0);
}

}  // namespace

TEST_CASE("simplify rewrites only what keeps bits") {
  const Golden table[] = {
      {"convert to the same dtype", R"({ lambda a:f32[2]. let b:f32[2] = convert[dtype=f32] a
        c:f32[2] = neg b in (c,) })",
       "{ lambda a:f32[2]. let c:f32[2] = neg a in (c,) }"},
      {"two reshapes", R"({ lambda a:f32[6]. let b:f32[2,3] = reshape[shape=[2,3]] a
        c:f32[3,2] = reshape[shape=[3,2]] b in (c,) })",
       R"({ lambda a:f32[6]. let b:f32[2,3] = reshape[shape=[2,3]] a
        c:f32[3,2] = reshape[shape=[3,2]] a in (c,) })"},
      {"transposes that undo each other", R"({ lambda a:f32[2,3,4]. let b:f32[4,2,3] = transpose[permutation=[2,0,1]] a
        c:f32[2,3,4] = transpose[permutation=[1,2,0]] b in (c,) })",
       R"({ lambda a:f32[2,3,4]. let b:f32[4,2,3] = transpose[permutation=[2,0,1]] a in (a,) })"},
      {"two broadcasts", R"({ lambda a:f32[3]. let b:f32[2,3] = broadcast_in_dim[dims=[1] shape=[2,3]] a
        c:f32[4,2,3] = broadcast_in_dim[dims=[1,2] shape=[4,2,3]] b in (c,) })",
       R"({ lambda a:f32[3]. let b:f32[2,3] = broadcast_in_dim[dims=[1] shape=[2,3]] a
        c:f32[4,2,3] = broadcast_in_dim[dims=[2] shape=[4,2,3]] a in (c,) })"},
      {"minus minus", R"({ lambda a:f32[2]. let b:f32[2] = neg a
        c:f32[2] = neg b in (c,) })",
       "{ lambda a:f32[2]. let b:f32[2] = neg a in (a,) }"},
      {"times one, seen through a broadcast", R"({ lambda a:f32[2]. let b:f32[] = full[dtype=f32 shape=[] value=1.0]
        c:f32[2] = broadcast_in_dim[dims=[] shape=[2]] b
        d:f32[2] = mul c a in (d,) })",
       R"({ lambda a:f32[2]. let b:f32[] = full[dtype=f32 shape=[] value=1.0]
        c:f32[2] = full[dtype=f32 shape=[2] value=1.0] in (a,) })"},
      {"a select between equals", R"({ lambda a:bool[2] b:f32[2]. let c:f32[2] = select a b b in (c,) })",
       "{ lambda a:bool[2] b:f32[2]. let in (b,) }"},
      {"plus zero stays: it turns -0 to +0", R"({ lambda a:f32[2]. let b:f32[2] = full[dtype=f32 shape=[2] value=0.0]
        c:f32[2] = add a b in (c,) })",
       R"({ lambda a:f32[2]. let b:f32[2] = full[dtype=f32 shape=[2] value=0.0]
        c:f32[2] = add a b in (c,) })"},
      {"times zero stays: NaN", R"({ lambda a:f32[2]. let b:f32[2] = full[dtype=f32 shape=[2] value=0.0]
        c:f32[2] = mul a b in (c,) })",
       R"({ lambda a:f32[2]. let b:f32[2] = full[dtype=f32 shape=[2] value=0.0]
        c:f32[2] = mul a b in (c,) })"},
  };
  for (const Golden& golden : table) {
    CAPTURE(golden.what);
    CHECK(text_after(passes::simplify, golden.before) == printed(golden.after));
  }
}

TEST_CASE("fold computes what is arithmetic on constants, where every kernel rounds alike") {
  const Golden table[] = {
      {"rounded to float32, through moves", R"({ lambda a:f32[2]. let b:f32[] = full[dtype=f32 shape=[] value=0.1]
        c:f32[2] = broadcast_in_dim[dims=[] shape=[2]] b
        d:f32[2] = full[dtype=f32 shape=[2] value=3.0]
        e:f32[2] = mul c d
        f:f32[2] = add a e in (f,) })",
       R"({ lambda a:f32[2]. let b:f32[] = full[dtype=f32 shape=[] value=0.1]
        c:f32[2] = broadcast_in_dim[dims=[] shape=[2]] b
        d:f32[2] = full[dtype=f32 shape=[2] value=3.0]
        e:f32[2] = full[dtype=f32 shape=[2] value=0.30000001192092896]
        f:f32[2] = add a e in (f,) })"},
      {"comparisons, conversions, integers that wrap",
       R"({ lambda . let a:i32[] = full[dtype=i32 shape=[] value=2147483647]
        b:i32[] = full[dtype=i32 shape=[] value=1]
        c:i32[] = add a b
        d:bool[] = less c b
        e:f32[] = convert[dtype=f32] c in (d,e) })",
       R"({ lambda . let a:i32[] = full[dtype=i32 shape=[] value=2147483647]
        b:i32[] = full[dtype=i32 shape=[] value=1]
        c:i32[] = full[dtype=i32 shape=[] value=-2147483648]
        d:bool[] = full[dtype=bool shape=[] value=true]
        e:f32[] = full[dtype=f32 shape=[] value=-2147483648.0] in (d,e) })"},
      {"functions with rounding of their own stay", R"({ lambda . let a:f32[] = full[dtype=f32 shape=[] value=2.0]
        b:f32[] = exp a in (b,) })",
       R"({ lambda . let a:f32[] = full[dtype=f32 shape=[] value=2.0]
        b:f32[] = exp a in (b,) })"},
      {"so does what is NaN", R"({ lambda . let a:f32[] = full[dtype=f32 shape=[] value=0.0]
        b:f32[] = div a a in (b,) })",
       R"({ lambda . let a:f32[] = full[dtype=f32 shape=[] value=0.0]
        b:f32[] = div a a in (b,) })"},
  };
  for (const Golden& golden : table) {
    CAPTURE(golden.what);
    CHECK(text_after(passes::fold, golden.before) == printed(golden.after));
  }
}

TEST_CASE("dce drops what nobody uses, results of maps included") {
  CHECK(text_after(passes::dce, R"({ lambda a:f32[2] b:f32[2]. let c:f32[2] = neg a
        d:f32[2] = sin c
        e:f32[2] = cos b in (c,) })") == printed("{ lambda a:f32[2] b:f32[2]. let c:f32[2] = neg a in (c,) }"));
}

TEST_CASE("decompose writes a split as slices") {
  CHECK(text_after(passes::decompose, R"({ lambda a:f32[2,5]. let b:f32[2,2] c:f32[2,3] = split[dim=1 sizes=[2,3]] a
        d:f32[2,2] = neg b in (d,c) })") == printed(R"({ lambda a:f32[2,5].
        let b:f32[2,2] = slice[limit=[2,2] start=[0,0] strides=[1,1]] a
        c:f32[2,3] = slice[limit=[2,5] start=[0,2] strides=[1,1]] a
        d:f32[2,2] = neg b in (d,c) })"));
}

TEST_CASE("cse merges equal equations, random ones too") {
  CHECK(text_after(passes::cse, R"({ lambda a:f32[2] k:key[]. let b:f32[2] = sin a
        c:f32[2] = sin a
        d:f32[2] = cos a
        e:u32[4] = random_bits[shape=[4] width=32] k
        f:u32[4] = random_bits[shape=[4] width=32] k
        g:u32[5] = random_bits[shape=[5] width=32] k
        h:f32[2] = mul b c in (h,d,e,f,g) })") == printed(R"({ lambda a:f32[2] k:key[]. let b:f32[2] = sin a
        d:f32[2] = cos a
        e:u32[4] = random_bits[shape=[4] width=32] k
        g:u32[5] = random_bits[shape=[5] width=32] k
        h:f32[2] = mul b b in (h,d,e,e,g) })"));
}

TEST_CASE("a collective starts right behind its operand and is awaited right before its use") {
  const MapSpec spec{ir::AxisSizes({{"batch", 2}}), 1, {{"batch"}}, {{"batch"}, {""}}};
  const ir::FunctionPtr f =
      mapped({{DType::float32, Shape{4}, {}}}, spec, [](ir::Builder&, std::span<const ir::Value> x) {
        const ir::Value y = ops::sin(x[0]);
        const ir::Value z = ops::cos(y);
        const ir::Value s = ops::psum(y, {"batch"});
        const ir::Value u = ops::tanh(z);
        return std::vector{ops::mul(u, s), ops::psum(ops::neg(s * x[0]), {"batch"})};
      });
  const ir::FunctionPtr scheduled = passes::schedule_collectives(f);
  ir::verify(*scheduled);
  std::string order;
  for (const ir::Equation& e : ir::sub_function(scheduled->equations()[0].attrs, "body")->equations()) {
    order += e.primitive->name + " ";
  }
  CHECK(order == "sin collective_start cos tanh collective_wait pvary mul mul neg collective_start collective_wait ");
  const std::vector<eval::HostArray> arguments = {to_host({DType::float32, Shape{4}, {}}, {1, -2, 0.5, 3})};
  const auto expected = eval::eval(*f, arguments, *ops::reference_backend());
  const auto results = eval::eval(*scheduled, arguments, *ops::reference_backend());
  for (std::size_t i = 0; i < 2; ++i) CHECK(eval::host_bytes(results[i]) == eval::host_bytes(expected[i]));
}

TEST_CASE("dce drops unused results and operands of a map") {
  const MapSpec spec{ir::AxisSizes({{"batch", 2}}), 1, {{"batch"}, {"batch"}}, {{"batch"}, {"batch"}}};
  const ArrayType type{DType::float32, Shape{4}, {}};
  const ir::FunctionPtr both = mapped({type, type}, spec, [](ir::Builder&, std::span<const ir::Value> x) {
    return std::vector{ops::sin(x[0]), ops::cos(x[1])};
  });
  const ir::FunctionPtr first = std::make_shared<const ir::Function>(
      both->axes(), both->types(), both->inputs(), both->equations(), std::vector{both->outputs()[0]});
  const ir::FunctionPtr result = passes::dce(first);
  ir::verify(*result);
  const ir::Equation& pmap = result->equations().at(0);
  CHECK(pmap.inputs.size() == 1);
  CHECK(pmap.outputs.size() == 1);
  CHECK(ir::sub_function(pmap.attrs, "body")->equations().size() == 1);
}

TEST_CASE("effects are kept apart from one another, in order") {
  const ir::FunctionPtr f = ir::parse(R"({ lambda a:f32[2]. let b:bool[] = debug_print[axes={} batch=0 format="x"]
        c:bool[] = debug_print[axes={} batch=0 format="x"]
        d:f32[2] = sin a
        e:bool[] = debug_print[axes={} batch=0 format="{}"] d in (a,) })",
                                      ops::find_primitive);
  CHECK(passes::dce(f)->equations().size() == 4);
  CHECK(passes::cse(f)->equations().size() == 4);
  const ir::FunctionPtr ordered = passes::run_pipeline(f, true);
  REQUIRE(ordered->equations().size() == 4);
  std::vector<ir::Equation> prints;
  for (const ir::Equation& equation : ordered->equations()) {
    if (equation.primitive->name == "debug_print") prints.push_back(equation);
  }
  REQUIRE(prints.size() == 3);
  CHECK(prints[1].inputs.back() == prints[0].outputs[0]);
  CHECK(prints[2].inputs.back() == prints[1].outputs[0]);
  CHECK(passes::run_pipeline(ordered, true)->equals(*ordered));
}

TEST_CASE("the pipeline verifies between passes when asked and is a fixpoint") {
  const ir::FunctionPtr f = ir::parse(R"({ lambda a:f32[2]. let b:f32[2] = neg a
        c:f32[2] = neg b
        d:f32[2] = sin c
        e:f32[2] = sin a
        f:f32[2] = mul d e in (f,) })",
                                      ops::find_primitive);
  const ir::FunctionPtr once = passes::run_pipeline(f, true);
  CHECK(once->print(0) == printed(R"({ lambda a:f32[2]. let d:f32[2] = sin a
        f:f32[2] = mul d d in (f,) })"));
  CHECK(passes::run_pipeline(once, true)->equals(*once));
}

}  // namespace lockstep::tests
