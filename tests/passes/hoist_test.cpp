#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "engine/ir/control_flow.h"
#include "engine/passes/pass.h"
#include "tests/passes/golden.h"
#include "tests/support/derivative_checks.h"

// What a scan need not compute in each iteration, by the pass; what a scan is traced as: tests/ops/control_flow.
namespace lockstep::tests {
namespace {

const Golden goldens[] = {
    {"what is the same each time is computed in front; a view of it stays",
     R"({ lambda a:f32[2,3] b:f32[3] c:f32[4,2].
        let d:f32[3] e:f32[4,3] = scan[body={ lambda f:f32[2,3] g:f32[3] h:f32[2].
              let i:f32[2,3] = exp f
                  j:f32[2,3] = mul i f
                  k:f32[3,2] = transpose[permutation=[1,0]] j
                  l:f32[3] = dot_general[batch=([],[]) contract=([1],[0])] k h
                  m:f32[3] = add g l
              in (m, l) } carries=1 consts=1 length=4 reverse=false unroll=1] a b c
        in (d, e) })",
     R"({ lambda a:f32[2,3] b:f32[3] c:f32[4,2].
        let d:f32[2,3] = exp a
            e:f32[2,3] = mul d a
            f:f32[3] g:f32[4,3] = scan[body={ lambda a:f32[2,3] b:f32[2,3] c:f32[2,3] d:f32[3] e:f32[2].
              let f:f32[3,2] = transpose[permutation=[1,0]] c
                  g:f32[3] = dot_general[batch=([],[]) contract=([1],[0])] f e
                  h:f32[3] = add d g
              in (h, g) } carries=1 consts=3 length=4 reverse=false unroll=1] a d e b c
        in (f, g) })"},
    {"out of a scan in a scan, and out of both",
     R"({ lambda a:f32[2] b:f32[2].
        let c:f32[2] = scan[body={ lambda d:f32[2] e:f32[2].
              let f:f32[2] = scan[body={ lambda g:f32[2] h:f32[2].
                    let i:f32[2] = sin g
                        j:f32[2] = mul h i
                    in (j) } carries=1 consts=1 length=3 reverse=false unroll=1] d e
              in (f) } carries=1 consts=1 length=2 reverse=false unroll=1] a b
        in (c) })",
     R"({ lambda a:f32[2] b:f32[2].
        let c:f32[2] = sin a
            d:f32[2] = scan[body={ lambda a:f32[2] b:f32[2] c:f32[2].
              let d:f32[2] = scan[body={ lambda a:f32[2] b:f32[2] c:f32[2].
                    let d:f32[2] = mul c b
                    in (d) } carries=1 consts=2 length=3 reverse=false unroll=1] a b c
              in (d) } carries=1 consts=2 length=2 reverse=false unroll=1] a c b
        in (d) })"},
};

/// A scan of four iterations over `a`, a const, and `c`, rows; `body` computes `g`, the next carry.
std::string scan_of(const std::string& body, int length = 4) {
  const std::string n = std::to_string(length);
  return "{ lambda a:f32[2,2] b:f32[2,2] c:f32[" + n +
         ",2,2]. let h:f32[2,2] = scan[body={ lambda d:f32[2,2] e:f32[2,2] f:f32[2,2]. let " + body +
         " in (g) } carries=1 consts=1 length=" + n + " reverse=false unroll=1] a b c in (h) }";
}

}  // namespace

TEST_CASE("hoist: the text after it, and the same values") {
  for (const Golden& golden : goldens) {
    CAPTURE(std::string(golden.what));
    const ir::FunctionPtr before = ir::parse(golden.before, ops::find_primitive);
    const ir::FunctionPtr after = run_pass(passes::hoist, golden.before);
    CHECK(after->print(0) == printed(golden.after));
    const std::vector<Elements> inputs = random_arrays(before->input_types(), 3);
    CHECK(evaluate(after, inputs) == evaluate(before, inputs));
    CHECK(passes::hoist(after)->print(0) == after->print(0));
  }
}

TEST_CASE("what changes from one iteration to the next, or need not run at all, stays in the scan") {
  const std::string carried = "g:f32[2,2] = dot_general[batch=([],[]) contract=([1],[0])] e f";
  const std::string view = "i:f32[2,2] = transpose[permutation=[1,0]] d g:f32[2,2] = add e i";
  const std::string invariant = "i:f32[2,2] = exp d g:f32[2,2] = add e i";
  for (const std::string& text : {scan_of(carried), scan_of(view), scan_of(invariant, 0)}) {
    CAPTURE(text);
    CHECK(run_pass(passes::hoist, text)->print(0) == printed(text));
  }
}

TEST_CASE("in the pipeline products of rows stay, which one of all rows may round otherwise") {
  const std::string of_row = "i:f32[2,2] = exp d g:f32[2,2] = dot_general[batch=([],[]) contract=([1],[0])] f i";
  const std::string after = R"({ lambda a:f32[2,2] b:f32[2,2] c:f32[4,2,2].
      let d:f32[2,2] = exp a
          h:f32[2,2] = scan[body={ lambda a:f32[2,2] i:f32[2,2] e:f32[2,2] f:f32[2,2].
            let g:f32[2,2] = dot_general[batch=([],[]) contract=([1],[0])] f i
            in (g) } carries=1 consts=2 length=4 reverse=false unroll=1] a d b c
      in (h) })";
  CHECK(run_pass(passes::hoist, scan_of(of_row))->print(0) == printed(after));
}

}  // namespace lockstep::tests
