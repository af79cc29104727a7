#include <string>

#include <doctest/doctest.h>

#include "engine/passes/pass.h"
#include "tests/passes/golden.h"

// What is rounded to bfloat16, where, and what stays as it is.
namespace lockstep::tests {
namespace {

std::string rounded(const std::string& text) { return run_pass(passes::multiply_in_bfloat16, text)->print(0); }

constexpr Golden precision_table[] = {
    {"operands are rounded once each, results between layers too, gradients of weights are not",
     R"({ lambda a:f32[4,4] b:f32[8,4]. let c:f32[8,4] = tanh b
        d:f32[8,4] = dot_general[batch=([],[]) contract=([1],[0])] c a
        e:f32[8,4] = exp d
        f:f32[8,4] = dot_general[batch=([],[]) contract=([1],[0])] e a
        g:f32[4,4] = dot_general[batch=([],[]) contract=([0],[0])] c e in (f,g) })",
     R"({ lambda a:f32[4,4] b:f32[8,4].
  let c:f32[8,4] = tanh b
      d:bf16[8,4] = convert[dtype=bf16] c
      e:bf16[4,4] = convert[dtype=bf16] a
      f:bf16[8,4] = dot_general[batch=([],[]) contract=([1],[0])] d e
      g:f32[8,4] = convert[dtype=f32] f
      h:f32[8,4] = exp g
      i:bf16[8,4] = convert[dtype=bf16] h
      j:bf16[8,4] = dot_general[batch=([],[]) contract=([1],[0])] i e
      k:f32[4,4] = dot_general[batch=([],[]) contract=([0],[0]) dtype=f32] d i
      l:f32[8,4] = convert[dtype=f32] j
  in (l,k) })"},
    {"moves are made on the narrow side, and element-wise readers widen for themselves",
     R"({ lambda a:f32[4,6] b:f32[8,4]. let c:f32[8,6] = dot_general[batch=([],[]) contract=([1],[0])] b a
        d:f32[8,2,3] = reshape[shape=[8,2,3]] c
        e:f32[2,8,3] = transpose[permutation=[1,0,2]] d
        f:f32[2,8,8] = dot_general[batch=([0],[0]) contract=([2],[2])] e e
        g:f32[2,8,3] = exp e
        h:f32[2,8,3] = neg e
        i:f32[2,8] = reduce_max[axes=[2]] e
        j:f32[2,8] = reduce_min[axes=[2]] e in (f,g,h,i,j) })",
     R"({ lambda a:f32[4,6] b:f32[8,4].
  let c:bf16[8,4] = convert[dtype=bf16] b
      d:bf16[4,6] = convert[dtype=bf16] a
      e:bf16[8,6] = dot_general[batch=([],[]) contract=([1],[0])] c d
      f:bf16[8,2,3] = reshape[shape=[8,2,3]] e
      g:bf16[2,8,3] = transpose[permutation=[1,0,2]] f
      h:f32[2,8,8] = dot_general[batch=([0],[0]) contract=([2],[2]) dtype=f32] g g
      i:f32[2,8,3] = convert[dtype=f32] g
      j:f32[2,8,3] = exp i
      k:f32[2,8,3] = convert[dtype=f32] g
      l:f32[2,8,3] = neg k
      m:f32[2,8,3] = convert[dtype=f32] g
      n:f32[2,8] = reduce_max[axes=[2]] m
      o:f32[2,8] = reduce_min[axes=[2]] m
  in (h,j,l,n,o) })"},
    {"in a map, weights are rounded before they vary, and what is added up over shards is not",
     R"({ lambda a:f32[4,4] b:f32[8,4].
        let c:f32[4,4] = pmap[axes=batch body={ lambda [batch=2]; a:f32[4,4] b:f32[4,4]{batch}.
              let c:f32[4,4]{batch} = pvary[axes=batch] a
                  d:f32[4,4]{batch} = dot_general[batch=([],[]) contract=([1],[0])] b c
                  e:f32[4,4]{batch} = dot_general[batch=([],[]) contract=([0],[0])] b d
                  f:f32[4,4]{batch} = transpose[permutation=[1,0]] e
                  g:f32[4,4] = psum[axes=batch] f
                  h:f32[4,4] = sub a g
              in (h,) } devices={"cpu:0"} in=({"",""},{batch,""}) out=({"",""}) sizes=[2]] a b in (c,) })",
     R"({ lambda a:f32[4,4] b:f32[8,4].
  let c:f32[4,4] = pmap[axes=batch body={ lambda [batch=2]; a:f32[4,4] b:f32[4,4]{batch}.
          let c:bf16[4,4]{batch} = convert[dtype=bf16] b
              d:bf16[4,4] = convert[dtype=bf16] a
              e:bf16[4,4]{batch} = pvary[axes=batch] d
              f:bf16[4,4]{batch} = dot_general[batch=([],[]) contract=([1],[0])] c e
              g:f32[4,4]{batch} = dot_general[batch=([],[]) contract=([0],[0]) dtype=f32] c f
              h:f32[4,4]{batch} = transpose[permutation=[1,0]] g
              i:f32[4,4] = psum[axes=batch] h
              j:f32[4,4] = sub a i
          in (j,) } devices={"cpu:0"} in=({"",""},{batch,""}) out=({"",""}) sizes=[2]] a b
  in (c,) })"},
    {"a scan takes what its body only multiplies in bfloat16",
     R"({ lambda a:f32[4,4] b:f32[2,4] c:f32[3,2,4].
        let d:f32[2,4] = scan[body={ lambda a:f32[4,4] b:f32[2,4] c:f32[2,4].
              let d:f32[2,4] = dot_general[batch=([],[]) contract=([1],[0])] c a
                  e:f32[2,4] = dot_general[batch=([],[]) contract=([1],[0])] b a
                  f:f32[2,4] = add d e
              in (f,) } carries=1 consts=1 length=3 reverse=false unroll=1] a b c in (d,) })",
     R"({ lambda a:f32[4,4] b:f32[2,4] c:f32[3,2,4].
  let d:bf16[4,4] = convert[dtype=bf16] a
      e:bf16[3,2,4] = convert[dtype=bf16] c
      f:f32[2,4] = scan[body={ lambda a:bf16[4,4] b:f32[2,4] c:bf16[2,4].
          let d:bf16[2,4] = dot_general[batch=([],[]) contract=([1],[0])] c a
              e:bf16[2,4] = convert[dtype=bf16] b
              f:bf16[2,4] = dot_general[batch=([],[]) contract=([1],[0])] e a
              g:f32[2,4] = convert[dtype=f32] d
              h:f32[2,4] = convert[dtype=f32] f
              i:f32[2,4] = add g h
          in (i,) } carries=1 consts=1 length=3 reverse=false unroll=1] d b e
  in (f,) })"},
    {"convolutions",
     R"({ lambda a:f32[2,5,5,3] b:f32[3,3,3,4].
        let c:f32[2,3,3,4] = conv[dilation=[1,1] groups=1 padding=([0,0],[0,0]) strides=[1,1]] a b
            d:f32[2,3,3,4] = tanh c
            e:f32[2,5,5,3] = conv_input_grad[dilation=[1,1] groups=1 padding=([0,0],[0,0]) spatial=[5,5] strides=[1,1]] d b
            f:f32[3,3,3,4] = conv_kernel_grad[dilation=[1,1] groups=1 padding=([0,0],[0,0]) strides=[1,1] window=[3,3]] a d
        in (e,f) })",
     R"({ lambda a:f32[2,5,5,3] b:f32[3,3,3,4].
  let c:bf16[2,5,5,3] = convert[dtype=bf16] a
      d:bf16[3,3,3,4] = convert[dtype=bf16] b
      e:bf16[2,3,3,4] = conv[dilation=[1,1] groups=1 padding=([0,0],[0,0]) strides=[1,1]] c d
      f:f32[2,3,3,4] = convert[dtype=f32] e
      g:f32[2,3,3,4] = tanh f
      h:bf16[2,3,3,4] = convert[dtype=bf16] g
      i:bf16[2,5,5,3] = conv_input_grad[dilation=[1,1] groups=1 padding=([0,0],[0,0]) spatial=[5,5] strides=[1,1]] h d
      j:f32[3,3,3,4] = conv_kernel_grad[dilation=[1,1] dtype=f32 groups=1 padding=([0,0],[0,0]) strides=[1,1] window=[3,3]] c h
      k:f32[2,5,5,3] = convert[dtype=f32] i
  in (k,j) })"},
    {"other dtypes stay",
     R"({ lambda a:f64[4,4] b:f64[8,4]. let c:f64[8,4] = dot_general[batch=([],[]) contract=([1],[0])] b a in (c,) })",
     R"({ lambda a:f64[4,4] b:f64[8,4]. let c:f64[8,4] = dot_general[batch=([],[]) contract=([1],[0])] b a in (c,) })"},
};

}  // namespace

TEST_CASE("products in bfloat16") {
  for (const Golden& golden : precision_table) {
    CAPTURE(golden.what);
    CHECK(rounded(golden.before) == printed(golden.after));
  }
}

}  // namespace lockstep::tests
