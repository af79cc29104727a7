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
#include "tests/support/hoisted_scans.h"

// What a scan is traced as: what is the same each time in front of it, and products of rows with that as one product.
namespace lockstep::tests {
namespace {

const Golden goldens[] = {
    {"what is the same each time is computed in front; a view of it stays", invariant_scan,
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
    nested_scans,
};

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
  for (const Golden& golden : goldens) check_golden(golden, traced);
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
  for (const std::string& text : settled_scans()) {
    CAPTURE(text);
    CHECK(run_pass(traced, text)->print(0) == printed(text));
  }
}

}  // namespace lockstep::tests
