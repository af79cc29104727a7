#include <string>

#include <doctest/doctest.h>

#include "engine/ir/control_flow.h"
#include "engine/passes/pass.h"
#include "tests/passes/golden.h"
#include "tests/support/derivative_checks.h"

// What one scan stacks for another.
namespace lockstep::tests {
namespace {

ir::FunctionPtr without_rematerialize_scans(const ir::FunctionPtr& f) {
  return passes::dce(passes::rematerialize_scans(f));
}

/// After rematerialize_scans and dce, with every bit as before.
ir::FunctionPtr rematerialized(const std::string& text) {
  const ir::FunctionPtr function = run_pass(without_rematerialize_scans, text);
  const ir::FunctionPtr before = ir::parse(text, ops::find_primitive);
  const std::vector<Elements> inputs = random_arrays(before->input_types(), 3);
  CHECK(evaluate(function, inputs) == evaluate(before, inputs));
  return function;
}

/// Two scans: the first stacks what `body` names in `rows`, two at least; the second adds up the products of two.
std::string two_scans(const std::string& body, const std::string& rows, bool reverse = false) {
  return R"({ lambda a:f32[2] b:f32[2] c:f32[3,2].
    let d:f32[2] e:f32[3,2] f:f32[3,2] = scan[body={ lambda g:f32[2] h:f32[2] i:f32[2].
          let j:f32[2] = add h i
              )" +
         body + "\n in (j, " + rows + R"() } carries=1 consts=1 length=3 reverse=false unroll=1] a b c
        k:f32[2] = scan[body={ lambda l:f32[2] m:f32[2] n:f32[2].
          let o:f32[2] = mul m n
              p:f32[2] = add l o
          in (p,) } carries=1 consts=0 length=3 reverse=)" +
         (reverse ? "true" : "false") + R"( unroll=1] d e f
    in (k,) })";
}

std::size_t stacks_of_first(const ir::FunctionPtr& f) { return ir::Scan::of(f->equations().at(0).attrs).ys(); }

}  // namespace

TEST_CASE("a scan computes again what is quickly computed from other rows it reads") {
  const char* const before = R"({ lambda a:f32[2] b:f32[3,2].
    let c:f32[2] d:f32[3,2] e:f32[3,2] f:f32[3,2] = scan[body={ lambda g:f32[2] h:f32[2].
          let i:f32[2] = add g h
              j:f32[2] = tanh i
              k:f32[2] = mul j j
              l:f32[2] = full[dtype=f32 shape=[2] value=1.0]
              m:f32[2] = sub l k
          in (j, m, j, j) } carries=1 consts=0 length=3 reverse=false unroll=1] a b
        n:f32[2] o:f32[3,2] p:f32[3,2] = scan[body={ lambda q:f32[2] r:f32[2] s:f32[2] t:f32[2].
          let u:f32[2] = mul q r
              v:f32[2] = add u s
              w:f32[2] = mul v t
          in (w, u, u) } carries=1 consts=0 length=3 reverse=true unroll=1] c d e f
        x:f32[3,2] = add o p
    in (n, x) })";
  // Of the first scan's rows one is left, of the second's too.
  const char* const golden = R"({ lambda a:f32[2] b:f32[3,2].
    let c:f32[2] e:f32[3,2] = scan[body={ lambda g:f32[2] h:f32[2].
          let i:f32[2] = add g h
              j:f32[2] = tanh i
          in (j, j) } carries=1 consts=0 length=3 reverse=false unroll=1] a b
        n:f32[2] o:f32[3,2] = scan[body={ lambda q:f32[2] s:f32[2].
          let l:f32[2] = full[dtype=f32 shape=[2] value=1.0]
              k:f32[2] = mul s s
              m:f32[2] = sub l k
              u:f32[2] = mul q m
              v:f32[2] = add u s
              w:f32[2] = mul v s
          in (w, u) } carries=1 consts=0 length=3 reverse=true unroll=1] c e
        x:f32[3,2] = add o o
    in (n, x) })";
  CHECK(rematerialized(before)->print(0) == printed(golden));
}

TEST_CASE("rows are stacked that take longer to compute than to read, or need what is not read") {
  struct Case {
    const char* what;
    const char* body;
    const char* rows;
    std::size_t stacks;
  };
  const char* const chain =
      "q:f32[2] = mul j j\n r:f32[2] = mul q j\n s:f32[2] = mul r j\n t:f32[2] = mul s j\n u:f32[2] = mul t j\n"
      "v:f32[2] = mul u j\n w:f32[2] = mul v j\n x:f32[2] = mul w j\n y:f32[2] = mul x j";
  const Case table[] = {
      {"one step", "q:f32[2] = mul j j", "j, q", 1},
      {"one step, the other way round", "q:f32[2] = mul j j", "q, j", 1},
      {"through another one", "q:f32[2] = mul j j\n r:f32[2] = mul q q\n s:f32[2] = sub r q", "j, s", 1},
      {"a slow op", "q:f32[2] = exp j", "j, q", 2},
      {"a slow op between", "q:f32[2] = exp j\n r:f32[2] = mul q j", "j, r", 2},
      {"of a constant of the scan", "q:f32[2] = mul j g", "j, q", 2},
      {"of a row that is not stacked", "q:f32[2] = mul i j", "j, q", 2},
      {"an operand of the body", "q:f32[2] = mul j j", "i, q", 2},
      {"eight steps", chain, "j, x", 1},
      {"nine steps", chain, "j, y", 2},
  };
  for (const Case& it : table) {
    for (const bool reverse : {false, true}) {
      CAPTURE(it.what);
      CAPTURE(reverse);
      CHECK(stacks_of_first(rematerialized(two_scans(it.body, it.rows, reverse))) == it.stacks);
    }
  }
}

}  // namespace lockstep::tests
