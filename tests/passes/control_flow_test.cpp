#include "engine/ir/control_flow.h"

#include <string>

#include <doctest/doctest.h>

#include "engine/ir/text/parse.h"
#include "engine/ops/primitives.h"
#include "engine/passes/pass.h"
#include "tests/support/derivative_checks.h"

// Passes over the sub-functions of loops and branches.
namespace lockstep::tests {
namespace {

ir::FunctionPtr parsed(const std::string& text) {
  ir::FunctionPtr function = ir::parse(text, ops::find_primitive);
  ir::verify(*function);
  return function;
}

const ir::Equation& only_equation(const ir::FunctionPtr& function) {
  REQUIRE(function->equations().size() == 1);
  return function->equations()[0];
}

/// The pass keeps every bit.
ir::FunctionPtr checked(ir::FunctionPtr (*pass)(const ir::FunctionPtr&), const ir::FunctionPtr& before) {
  const ir::FunctionPtr after = pass(before);
  const std::vector<Elements> inputs = random_arrays(before->input_types(), 3);
  CHECK(evaluate(after, inputs) == evaluate(before, inputs));
  return after;
}

// Carry b needs c; carry d and the second y need nobody.
const char* const loop = R"({ lambda a:f32[] b:f32[] c:f32[] d:f32[] e:f32[4] f:f32[4].
    let g:f32[] h:f32[] i:f32[] j:f32[4] k:f32[4] = scan[body={ lambda l:f32[] m:f32[] n:f32[] o:f32[] p:f32[] q:f32[].
          let r:f32[] = add m n
              s:f32[] = mul n p
              t:f32[] = mul o l
              u:f32[] = sin q
              v:f32[] = add m n
              w:f32[] = add r v
          in (w, s, t, r, u) } carries=3 consts=1 length=4 reverse=false unroll=1] a b c d e f
    in (g, j) })";

}  // namespace

TEST_CASE("dce drops a scan's unused results, carries and operands") {
  const ir::FunctionPtr after = checked(passes::dce, parsed(loop));
  const ir::Equation& equation = only_equation(after);
  const ir::Scan scan = ir::Scan::of(equation.attrs);
  CHECK(equation.inputs.size() == 3);  // b, c and e
  CHECK(equation.outputs.size() == 3);
  CHECK(scan.consts == 0);
  CHECK(scan.carries == 2);
  CHECK(scan.body->equations().size() == 4);
}

TEST_CASE("unroll writes out as many iterations as a scan asks for, and those that remain") {
  for (const char* const reverse : {"false", "true"}) {
    for (const int length : {0, 1, 4, 6, 7}) {
      for (const int at_once : {1, 2, 3, 7, 9}) {
        CAPTURE(reverse);
        CAPTURE(length);
        CAPTURE(at_once);
        const auto n = std::to_string(length);
        const ir::FunctionPtr after =
            checked(passes::unroll,
                    parsed("{ lambda a:f32[] b:f32[2] c:f32[" + n + ",2]. let d:f32[2] e:f32[" + n + ",2] f:f32[" + n +
                           "] = scan[body={ lambda g:f32[] h:f32[2] i:f32[2]. let j:f32[2] = mul h i\n" +
                           "k:f32[2] = sin j\nl:f32[] = sin g\nin (k, j, l) } carries=1 consts=1 length=" + n +
                           " reverse=" + reverse + " unroll=" + std::to_string(at_once) + "] a b c\nin (d, e, f) }"));
        const int blocks = length / at_once;
        const bool loops = blocks > 1 || at_once == 1 || length == 0;
        CHECK(count(*after, "scan") == (loops ? 1 : 0));
        CHECK(count(*after, "mul") == (!loops ? length : at_once == 1 || length == 0 ? 0 : length - blocks * at_once));
      }
    }
  }
}

TEST_CASE("cse and simplify go into loops") {
  const ir::FunctionPtr merged = checked(passes::cse, parsed(loop));
  CHECK(count(*ir::Scan::of(only_equation(merged).attrs).body, "add") == 2);
  const ir::FunctionPtr simpler = checked(passes::simplify, parsed(R"({ lambda a:f32[2].
      let b:f32[2] = scan[body={ lambda c:f32[2]. let d:f32[2] = neg c
                e:f32[2] = neg d
                f:f32[2] = sin e
            in (f,) } carries=1 consts=0 length=3 reverse=false unroll=1] a
      in (b,) })"));
  CHECK(count(*ir::Scan::of(only_equation(passes::dce(simpler)).attrs).body, "neg") == 0);
}

TEST_CASE("dce keeps what a while_loop's predicate needs, and drops the rest") {
  const ir::FunctionPtr after = checked(passes::dce, parsed(R"({ lambda a:i32[] b:f32[2] c:f32[2] d:i32[] e:f32[2].
      let f:i32[] g:f32[2] h:f32[2] = while_loop[body={ lambda i:f32[2] j:i32[] k:f32[2] l:f32[2].
                let m:i32[] = full[dtype=i32 shape=[] value=1]
                    n:i32[] = add j m
                    o:f32[2] = sin k
                    p:f32[2] = mul l i
                in (n, o, p) } body_consts=1
              cond={ lambda q:i32[] r:i32[] s:f32[2] t:f32[2]. let u:bool[] = less r q in (u,) } cond_consts=1] d b a c e
      in (g,) })"));
  const ir::Equation& equation = only_equation(after);
  const ir::WhileLoop loop = ir::WhileLoop::of(equation.attrs);
  CHECK(equation.inputs.size() == 3);
  CHECK(loop.carries() == 2);
  CHECK(loop.cond_consts == 1);
  CHECK(loop.body_consts == 0);
}

TEST_CASE("dce drops what no branch of a cond needs") {
  const ir::FunctionPtr after = checked(passes::dce, parsed(R"({ lambda a:i32[] b:f32[2] c:f32[2] d:f32[2].
      let e:f32[2] f:f32[2] = cond[branch0={ lambda g:f32[2] h:f32[2] i:f32[2]. let j:f32[2] = sin g
                    k:f32[2] = mul h i
                in (j, k) }
              branch1={ lambda l:f32[2] m:f32[2] n:f32[2]. let o:f32[2] = add l m in (o, n) }] a b c d
      in (e,) })"));
  const ir::Equation& equation = only_equation(after);
  CHECK(equation.inputs.size() == 3);
  CHECK(equation.outputs.size() == 1);
  CHECK(count(*ir::Cond::of(equation.attrs).branches[0], "mul") == 0);
}

}  // namespace lockstep::tests
