#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/passes/pass.h"
#include "tests/passes/golden.h"
#include "tests/support/derivative_checks.h"

// What a loop carries and never changes is a constant of it.
namespace lockstep::tests {
namespace {

const Golden carry_goldens[] = {
    {"a weight that a scan carries",
     R"({ lambda a:f32[3,3] b:f32[3] c:f32[4,3].
        let d:f32[3,3] e:f32[3] f:f32[4,3] = scan[body={ lambda g:f32[3,3] h:f32[3] i:f32[3].
              let j:f32[3,3] = exp g
                  k:f32[3] = dot_general[batch=([],[]) contract=([0],[0])] h j
                  l:f32[3] = add k i
              in (g, l, k) } carries=2 consts=0 length=4 reverse=false unroll=1] a b c
        in (d, e, f) })",
     R"({ lambda a:f32[3,3] b:f32[3] c:f32[4,3].
        let e:f32[3] f:f32[4,3] = scan[body={ lambda g:f32[3,3] h:f32[3] i:f32[3].
              let j:f32[3,3] = exp g
                  k:f32[3] = dot_general[batch=([],[]) contract=([0],[0])] h j
                  l:f32[3] = add k i
              in (l, k) } carries=1 consts=1 length=4 reverse=false unroll=1] a b c
        in (a, e, f) })"},
    {"the second of three carries, behind a constant, of a loop in a loop too",
     R"({ lambda a:f32[2] b:f32[2] c:f32[2] d:f32[2].
        let e:f32[2] f:f32[2] g:f32[2] = scan[body={ lambda h:f32[2] i:f32[2] j:f32[2] k:f32[2].
              let l:f32[2] m:f32[2] = scan[body={ lambda n:f32[2] o:f32[2].
                    let p:f32[2] = add n o
                    in (n, p) } carries=2 consts=0 length=2 reverse=false unroll=1] h i
                  q:f32[2] = mul m j
              in (q, j, i) } carries=3 consts=1 length=3 reverse=false unroll=1] a b c d
        in (e, f, g) })",
     R"({ lambda a:f32[2] b:f32[2] c:f32[2] d:f32[2].
        let e:f32[2] g:f32[2] = scan[body={ lambda h:f32[2] j:f32[2] i:f32[2] k:f32[2].
              let m:f32[2] = scan[body={ lambda n:f32[2] o:f32[2].
                    let p:f32[2] = add n o
                    in (p) } carries=1 consts=1 length=2 reverse=false unroll=1] h i
                  q:f32[2] = mul m j
              in (q, i) } carries=2 consts=2 length=3 reverse=false unroll=1] a c b d
        in (e, c, g) })"},
    {"the bound of a while_loop",
     R"({ lambda a:f32[] b:f32[] c:f32[].
        let d:f32[] e:f32[] = while_loop[body={ lambda f:f32[] g:f32[] h:f32[].
              let i:f32[] = add g f
              in (i, h) } body_consts=1 cond={ lambda j:f32[] k:f32[].
              let l:bool[] = less j k
              in (l) } cond_consts=0] a b c
        in (d, e) })",
     R"({ lambda a:f32[] b:f32[] c:f32[].
        let d:f32[] = while_loop[body={ lambda f:f32[] h:f32[] g:f32[].
              let i:f32[] = add g f
              in (i) } body_consts=2 cond={ lambda k:f32[] j:f32[].
              let l:bool[] = less j k
              in (l) } cond_consts=1] c a c b
        in (d, c) })"},
};

}  // namespace

TEST_CASE("invariant_carries: the text after it, and the same values") {
  for (const Golden& golden : carry_goldens) {
    CAPTURE(std::string(golden.what));
    const ir::FunctionPtr before = ir::parse(golden.before, ops::find_primitive);
    const ir::FunctionPtr after = run_pass(passes::invariant_carries, golden.before);
    CHECK(after->print(0) == printed(golden.after));
    CHECK(passes::invariant_carries(after)->print(0) == after->print(0));
    std::vector<Elements> inputs = random_arrays(before->input_types(), 3);
    if (before->equations()[0].primitive == &ops::primitives::while_loop()) inputs = {{0.25}, {-1.0}, {2.0}};
    CHECK(evaluate(after, inputs) == evaluate(before, inputs));
  }
}

TEST_CASE("carries that change places, and a while_loop that changes nothing, stay") {
  const std::string exchanged =
      "{ lambda a:f32[2] b:f32[2]. let c:f32[2] d:f32[2] = scan[body={ lambda e:f32[2] f:f32[2]. let in (f, e) } "
      "carries=2 consts=0 length=3 reverse=false unroll=1] a b in (c, d) }";
  const std::string nothing =
      "{ lambda a:f32[]. let b:f32[] = while_loop[body={ lambda c:f32[]. let in (c) } body_consts=0 cond={ lambda "
      "d:f32[]. let e:bool[] = less d d in (e) } cond_consts=0] a in (b) }";
  for (const std::string& text : {exchanged, nothing}) {
    CHECK(run_pass(passes::invariant_carries, text)->print(0) == printed(text));
  }
}

}  // namespace lockstep::tests
