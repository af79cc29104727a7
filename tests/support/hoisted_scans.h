#pragma once

#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "tests/passes/golden.h"
#include "tests/support/derivative_checks.h"

// Scans of which some need not be computed in each iteration, for the pass that moves it out and for what a scan is traced
// as.
namespace lockstep::tests {

/// Its first two equations are the same each time, and the product of their view with a row.
inline constexpr const char* invariant_scan =
    R"({ lambda a:f32[2,3] b:f32[3] c:f32[4,2].
        let d:f32[3] e:f32[4,3] = scan[body={ lambda f:f32[2,3] g:f32[3] h:f32[2].
              let i:f32[2,3] = exp f
                  j:f32[2,3] = mul i f
                  k:f32[3,2] = transpose[permutation=[1,0]] j
                  l:f32[3] = dot_general[batch=([],[]) contract=([1],[0])] k h
                  m:f32[3] = add g l
              in (m, l) } carries=1 consts=1 length=4 reverse=false unroll=1] a b c
        in (d, e) })";

/// What is the same each time in both of two scans.
inline constexpr Golden nested_scans = {"out of a scan in a scan, and out of both",
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
        in (d) })"};

/// A scan of four iterations over `a`, a const, and `c`, rows; `body` computes `g`, the next carry.
inline std::string scan_of(const std::string& body, int length = 4) {
  const std::string n = std::to_string(length);
  return "{ lambda a:f32[2,2] b:f32[2,2] c:f32[" + n +
         ",2,2]. let h:f32[2,2] = scan[body={ lambda d:f32[2,2] e:f32[2,2] f:f32[2,2]. let " + body +
         " in (g) } carries=1 consts=1 length=" + n + " reverse=false unroll=1] a b c in (h) }";
}

/// Scans that have nothing to move: what changes from one iteration to the next, a view, no iteration.
inline std::vector<std::string> settled_scans() {
  return {scan_of("g:f32[2,2] = dot_general[batch=([],[]) contract=([1],[0])] e f"),
          scan_of("i:f32[2,2] = transpose[permutation=[1,0]] d g:f32[2,2] = add e i"),
          scan_of("i:f32[2,2] = exp d g:f32[2,2] = add e i", 0)};
}

/// The text after the rewrite, the same values, and nothing left to rewrite.
inline void check_golden(const Golden& golden, ir::FunctionPtr (*rewrite)(const ir::FunctionPtr&)) {
  CAPTURE(std::string(golden.what));
  const ir::FunctionPtr before = ir::parse(golden.before, ops::find_primitive);
  const ir::FunctionPtr after = run_pass(rewrite, golden.before);
  CHECK(after->print(0) == printed(golden.after));
  const std::vector<Elements> inputs = random_arrays(before->input_types(), 3);
  CHECK(evaluate(after, inputs) == evaluate(before, inputs));
  CHECK(rewrite(after)->print(0) == after->print(0));
}

}  // namespace lockstep::tests
