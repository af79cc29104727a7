#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "engine/ir/control_flow.h"
#include "engine/ir/rewrite.h"
#include "engine/ops/control_flow/hoisting.h"
#include "engine/ops/primitives.h"
#include "tests/passes/golden.h"
#include "tests/support/derivative_checks.h"

// What a scan is traced as: what is the same each time in front of it, and products of rows with that as one product.
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
            f:f32[3,2] = transpose[permutation=[1,0]] e
            g:f32[3,4] = dot_general[batch=([],[]) contract=([1],[1])] f c
            h:f32[4,3] = transpose[permutation=[1,0]] g
            i:f32[3] j:f32[4,3] = scan[body={ lambda a:f32[2,3] b:f32[2,3] c:f32[2,3] d:f32[3] e:f32[2] f:f32[3].
              let g:f32[3,2] = transpose[permutation=[1,0]] c
                  h:f32[3] = add d f
              in (h, f) } carries=1 consts=3 length=4 reverse=false unroll=1] a d e b c h
        in (i, j) })"},
    {"products of rows with a weight are one product; the carry's stays",
     R"({ lambda a:f32[2,3] b:f32[3,3] c:f32[5,3] d:f32[4,5,2].
        let e:f32[5,3] f:f32[4,5,3] = scan[body={ lambda g:f32[2,3] h:f32[3,3] i:f32[5,3] j:f32[5,2].
              let k:f32[5,3] = dot_general[batch=([],[]) contract=([1],[0])] j g
                  l:f32[5,3] = dot_general[batch=([],[]) contract=([1],[0])] i h
                  m:f32[5,3] = add k l
                  n:f32[5,3] = tanh m
              in (n, n) } carries=1 consts=2 length=4 reverse=true unroll=1] a b c d
        in (e, f) })",
     R"({ lambda a:f32[2,3] b:f32[3,3] c:f32[5,3] d:f32[4,5,2].
        let e:f32[4,5,3] = dot_general[batch=([],[]) contract=([2],[0])] d a
            f:f32[5,3] g:f32[4,5,3] = scan[body={ lambda a:f32[2,3] b:f32[3,3] c:f32[5,3] d:f32[5,2] e:f32[5,3].
              let f:f32[5,3] = dot_general[batch=([],[]) contract=([1],[0])] c b
                  g:f32[5,3] = add e f
                  h:f32[5,3] = tanh g
              in (h, h) } carries=1 consts=2 length=4 reverse=true unroll=1] a b c d e
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

/// The results of a function, its one scan replaced by what it is traced as.
ir::FunctionPtr traced(const ir::FunctionPtr& function) {
  const auto rule = [](ir::Builder& builder, const ir::Equation& equation, std::span<const ir::Var> operands) {
    std::optional<std::vector<ir::Var>> results;
    if (equation.primitive != &ops::primitives::scan()) return results;
    std::vector<ArrayType> types;
    for (const ir::Var v : operands) types.push_back(builder.type(v));
    results = builder.inline_function(*ops::control_flow::traced_scan(ir::Scan::of(equation.attrs), types), operands);
    return results;
  };
  return ir::rewrite(*function, rule);
}

}  // namespace

TEST_CASE("the text of what a scan is traced as, and the same values") {
  for (const Golden& golden : goldens) {
    CAPTURE(std::string(golden.what));
    const ir::FunctionPtr before = ir::parse(golden.before, ops::find_primitive);
    const ir::FunctionPtr after = run_pass(traced, golden.before);
    CHECK(after->print(0) == printed(golden.after));
    const std::vector<Elements> inputs = random_arrays(before->input_types(), 3);
    CHECK(evaluate(after, inputs) == evaluate(before, inputs));
    CHECK(traced(after)->print(0) == after->print(0));
  }
}

TEST_CASE("products along nothing, and of no rows, are one product too") {
  for (const auto& [rows, depth] : {std::pair{2, 0}, std::pair{0, 2}}) {
    const std::string n = std::to_string(rows), k = std::to_string(depth);
    const ir::FunctionPtr before =
        ir::parse("{ lambda a:f32[" + k + ",3] b:f32[" + n + ",3] c:f32[4," + n + "," + k + "]. let d:f32[" + n +
                      ",3] = scan[body={ lambda e:f32[" + k + ",3] f:f32[" + n + ",3] g:f32[" + n + "," + k +
                      "]. let h:f32[" + n + ",3] = dot_general[batch=([],[]) contract=([1],[0])] g e i:f32[" + n +
                      ",3] = add f h in (i) } carries=1 consts=1 length=4 reverse=false unroll=1] a b c in (d) }",
                  ops::find_primitive);
    const ir::FunctionPtr after = traced(before);
    ir::verify(*after);
    CHECK(after->equations().size() == 2);
    const std::vector<Elements> inputs = random_arrays(before->input_types(), 3);
    CHECK(evaluate(after, inputs) == evaluate(before, inputs));
  }
}

TEST_CASE("what changes from one iteration to the next, or need not run at all, stays in the scan") {
  const std::string carried = "g:f32[2,2] = dot_general[batch=([],[]) contract=([1],[0])] e f";
  const std::string view = "i:f32[2,2] = transpose[permutation=[1,0]] d g:f32[2,2] = add e i";
  const std::string invariant = "i:f32[2,2] = exp d g:f32[2,2] = add e i";
  for (const std::string& text : {scan_of(carried), scan_of(view), scan_of(invariant, 0)}) {
    CAPTURE(text);
    CHECK(run_pass(traced, text)->print(0) == printed(text));
  }
}

}  // namespace lockstep::tests
