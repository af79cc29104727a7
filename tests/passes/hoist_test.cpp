#include <string>

#include <doctest/doctest.h>

#include "engine/passes/pass.h"
#include "tests/support/hoisted_scans.h"

// What a scan need not compute in each iteration, by the pass; what a scan is traced as: tests/ops/control_flow.
namespace lockstep::tests {
namespace {

const Golden hoist_goldens[] = {
    {"what is the same each time is computed in front; a view of it stays", invariant_scan,
     R"({ lambda a:f32[2,3] b:f32[3] c:f32[4,2].
        let d:f32[2,3] = exp a
            e:f32[2,3] = mul d a
            f:f32[3] g:f32[4,3] = scan[body={ lambda a:f32[2,3] b:f32[2,3] c:f32[2,3] d:f32[3] e:f32[2].
              let f:f32[3,2] = transpose[permutation=[1,0]] c
                  g:f32[3] = dot_general[batch=([],[]) contract=([1],[0])] f e
                  h:f32[3] = add d g
              in (h, g) } carries=1 consts=3 length=4 reverse=false unroll=1] a d e b c
        in (f, g) })"},
    nested_scans,
};

}  // namespace

TEST_CASE("hoist: the text after it, and the same values") {
  for (const Golden& golden : hoist_goldens) check_golden(golden, passes::hoist);
}

TEST_CASE("what changes from one iteration to the next, or need not run at all, stays in the scan") {
  for (const std::string& text : settled_scans()) {
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
