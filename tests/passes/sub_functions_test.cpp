#include <string>

#include <doctest/doctest.h>

#include "engine/passes/pass.h"
#include "tests/passes/golden.h"

// What passes make of functions in functions, as text: of calls, scans and maps.
namespace lockstep::tests {
namespace {

struct PassGolden {
  Golden text;
  ir::FunctionPtr (*pass)(const ir::FunctionPtr&);
};

void check(const PassGolden& golden) {
  CAPTURE(std::string(golden.text.what));
  CHECK(run_pass(golden.pass, golden.text.before)->print(0) == printed(golden.text.after));
}

/// `body`, of inputs a and b of a shard's or an iteration's type, in a map and in a scan. A % in the body is for what
/// the types of a map have behind their shape.
std::string in_map(std::string body, const std::string& inputs) {
  for (std::size_t at = 0; (at = body.find('%')) != std::string::npos;) body.replace(at, 1, "{batch}");
  const bool both = inputs == "a b";
  return "{ lambda a:f32[4] b:f32[4]. let c:f32[4] = pmap[axes=batch body={ lambda [batch=2]; " + body +
         R"( } devices={"cpu:0"} in=()" + (both ? "{batch},{batch}" : "{batch}") + ") out=({batch}) sizes=[2]] " +
         inputs + " in (c) }";
}

std::string in_scan(std::string body, const std::string& inputs) {
  std::erase(body, '%');
  return "{ lambda a:f32[2] b:f32[4,2]. let c:f32[2] = scan[body={ lambda " + body +
         " } carries=1 consts=0 length=4 reverse=false unroll=1] " + inputs + " in (c) }";
}

}  // namespace

TEST_CASE("inline_calls writes calls in calls in place, and leaves checkpoints") {
  check({{"calls",
          R"({ lambda a:f32[2] b:f32[2].
          let c:f32[2] = fused[body={ lambda d:f32[2] e:f32[2].
                let f:f32[2] = fused[body={ lambda g:f32[2]. let h:f32[2] = sin g in (h) }] d
                    i:f32[2] = mul f e
                in (i) }] a b
              j:f32[2] = checkpoint[body={ lambda k:f32[2].
                let l:f32[2] = fused[body={ lambda m:f32[2]. let n:f32[2] = cos m in (n) }] k
                in (l) } names={} policy="nothing_saveable"] c
          in (j) })",
          R"({ lambda a:f32[2] b:f32[2].
          let c:f32[2] = sin a
              d:f32[2] = mul c b
              e:f32[2] = checkpoint[body={ lambda f:f32[2]. let g:f32[2] = cos f in (g) } names={} policy="nothing_saveable"] d
          in (e) })"},
         passes::inline_calls});
}

TEST_CASE("a pass that finds nothing to do gives the function it was given") {
  const std::string texts[] = {in_map("d:f32[2]% e:f32[2]%. let f:f32[2]% = mul d e in (f)", "a b"),
                               "{ lambda a:f32[4] b:f32[4]. let c:f32[4] = add a b in (c) }"};
  for (const auto pass : {passes::inline_calls, passes::hoist, passes::unroll, passes::decompose,
                          passes::rematerialize_scans, passes::order_effects, passes::schedule_collectives}) {
    for (const std::string& text : texts) {
      const ir::FunctionPtr function = ir::parse(text, ops::find_primitive);
      CHECK(pass(function) == function);
    }
  }
}

TEST_CASE("unroll writes blocks of iterations into a loop, those that remain behind it") {
  check({{"two of five at once",
          R"({ lambda a:f32[2] b:f32[5,2].
          let c:f32[2] d:f32[5,2] = scan[body={ lambda e:f32[2] f:f32[2].
                let g:f32[2] = mul e f
                in (g, g) } carries=1 consts=0 length=5 reverse=false unroll=2] a b
          in (c, d) })",
          R"({ lambda a:f32[2] b:f32[5,2].
          let c:f32[4,2] = slice[limit=[4,2] start=[0,0] strides=[1,1]] b
              d:f32[2,2,2] = reshape[shape=[2,2,2]] c
              e:f32[2] f:f32[2,2,2] = scan[body={ lambda a:f32[2] b:f32[2,2].
                let c:f32[1,2] = slice[limit=[1,2] start=[0,0] strides=[1,1]] b
                    d:f32[2] = reshape[shape=[2]] c
                    e:f32[2] = mul a d
                    f:f32[1,2] = reshape[shape=[1,2]] e
                    g:f32[1,2] = slice[limit=[2,2] start=[1,0] strides=[1,1]] b
                    h:f32[2] = reshape[shape=[2]] g
                    i:f32[2] = mul e h
                    j:f32[1,2] = reshape[shape=[1,2]] i
                    k:f32[2,2] = concatenate[dim=0] f j
                in (i,k) } carries=1 consts=0 length=2 reverse=false unroll=1] a d
              g:f32[4,2] = reshape[shape=[4,2]] f
              h:f32[1,2] = slice[limit=[5,2] start=[4,0] strides=[1,1]] b
              i:f32[1,2] = slice[limit=[1,2] start=[0,0] strides=[1,1]] h
              j:f32[2] = reshape[shape=[2]] i
              k:f32[2] = mul e j
              l:f32[1,2] = reshape[shape=[1,2]] k
              m:f32[1,2] = concatenate[dim=0] l
              n:f32[5,2] = concatenate[dim=0] g m
          in (k,n) })"},
         passes::unroll});
  check({{"all, from the last on",
          R"({ lambda a:f32[2] b:f32[2,2].
          let c:f32[2] d:f32[2,2] = scan[body={ lambda e:f32[2] f:f32[2].
                let g:f32[2] = mul e f
                in (g, g) } carries=1 consts=0 length=2 reverse=true unroll=2] a b
          in (c, d) })",
          R"({ lambda a:f32[2] b:f32[2,2].
          let c:f32[1,2] = slice[limit=[2,2] start=[1,0] strides=[1,1]] b
              d:f32[2] = reshape[shape=[2]] c
              e:f32[2] = mul a d
              f:f32[1,2] = reshape[shape=[1,2]] e
              g:f32[1,2] = slice[limit=[1,2] start=[0,0] strides=[1,1]] b
              h:f32[2] = reshape[shape=[2]] g
              i:f32[2] = mul e h
              j:f32[1,2] = reshape[shape=[1,2]] i
              k:f32[2,2] = concatenate[dim=0] j f
          in (i,k) })"},
         passes::unroll});
}

TEST_CASE("order_effects makes each effect an operand of the next one") {
  check({{"prints",
          R"({ lambda a:f32[2].
          let b:bool[] = debug_print[axes={} batch=0 format="x"]
              c:f32[2] = sin a
              d:bool[] = debug_print[axes={} batch=0 format="{}"] c
              e:bool[] = debug_print[axes={} batch=0 format="y"]
          in (a) })",
          R"({ lambda a:f32[2].
          let b:bool[] = debug_print[axes={} batch=0 format="x"]
              c:f32[2] = sin a
              d:bool[] = debug_print[axes={} batch=0 format="{}" ordered=true] c b
              e:bool[] = debug_print[axes={} batch=0 format="y" ordered=true] d
          in (a) })"},
         passes::order_effects});
}

TEST_CASE("schedule_collectives starts a sum behind its operand and awaits it in front of its use") {
  check({{"a psum beside work that does not need it",
          R"({ lambda a:f32[4] b:f32[4].
          let c:f32[4] d:f32[2] = pmap[axes=batch body={ lambda [batch=2]; a:f32[2]{batch} b:f32[2]{batch}.
                let c:f32[2]{batch} = sin a
                    d:f32[2] = psum[axes=batch] c
                    e:f32[2]{batch} = pvary[axes=batch] d
                    f:f32[2]{batch} = tanh b
                    g:f32[2]{batch} = mul f e
                in (g,d) } devices={"cpu:0"} in=({batch},{batch}) out=({batch},{""}) sizes=[2]] a b
          in (c,d) })",
          R"({ lambda a:f32[4] b:f32[4].
          let c:f32[4] d:f32[2] = pmap[axes=batch body={ lambda [batch=2]; a:f32[2]{batch} b:f32[2]{batch}.
                let c:f32[2]{batch} = sin a
                    d:f32[2]{batch} = collective_start c
                    e:f32[2]{batch} = tanh b
                    f:f32[2] = collective_wait[axes=batch op="psum"] d
                    g:f32[2]{batch} = pvary[axes=batch] f
                    h:f32[2]{batch} = mul e g
                in (h,f) } devices={"cpu:0"} in=({batch},{batch}) out=({batch},{""}) sizes=[2]] a b
          in (c,d) })"},
         passes::schedule_collectives});
}

TEST_CASE("dce, cse and simplify change what is inside of maps and scans") {
  const std::string head = "a:f32[2]% b:f32[2]%. let c:f32[2]% = neg a d:f32[2]% = neg c ";
  const std::string sines = "e:f32[2]% = sin d f:f32[2]% = sin d ", unused = "g:f32[2]% = cos b ";
  const std::string before = head + sines + unused + "h:f32[2]% = mul e f in (h)";
  const std::string without_unused =
      "a:f32[2]%. let c:f32[2]% = neg a d:f32[2]% = neg c " + sines + "h:f32[2]% = mul e f in (h)";
  const std::string merged = head + "e:f32[2]% = sin d " + unused + "h:f32[2]% = mul e e in (h)";
  const std::string without_signs = "a:f32[2]% b:f32[2]%. let c:f32[2]% = neg a e:f32[2]% = sin a f:f32[2]% = sin a " +
                                    unused + "h:f32[2]% = mul e f in (h)";
  for (const auto in : {in_map, in_scan}) {
    const auto check_pass = [&](const char* what, auto pass, const std::string& after, const std::string& inputs) {
      CAPTURE(std::string(what));
      CHECK(run_pass(pass, in(before, "a b"))->print(0) == printed(in(after, inputs)));
    };
    check_pass("dce", passes::dce, without_unused, "a");
    check_pass("cse", passes::cse, merged, "a b");
    check_pass("simplify", passes::simplify, without_signs, "a b");
  }
}

}  // namespace lockstep::tests
