#include <algorithm>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "engine/passes/pass.h"
#include "tests/passes/golden.h"
#include "tests/support/evaluate.h"

// Which equations become one loop.
namespace lockstep::tests {
namespace {

std::string fused(const std::string& text) {
  const ir::FunctionPtr result = run_pass(passes::fuse, text);
  CHECK(passes::fuse(result)->equals(*result));
  return result->print(0);
}

constexpr Golden fuse_table[] = {
    {"a chain with a constant",
     R"({ lambda a:f32[4] b:f32[4]. let c:f32[4] = full[dtype=f32 shape=[4] value=2.0]
        d:f32[4] = mul a c
        e:f32[4] = add d b
        f:f32[4] = tanh e in (f,) })",
     R"({ lambda a:f32[4] b:f32[4]. let f:f32[4] = fused[body={ lambda a:f32[4] b:f32[4].
          let c:f32[4] = full[dtype=f32 shape=[4] value=2.0]
              d:f32[4] = mul a c
              e:f32[4] = add d b
              f:f32[4] = tanh e
          in (f,) }] a b in (f,) })"},
    {"a row spread over a matrix, and a value needed outside",
     R"({ lambda a:f32[3,4] b:f32[4]. let c:f32[3,4] = broadcast_in_dim[dims=[1] shape=[3,4]] b
        d:f32[3,4] = add a c
        e:f32[3,4] = exp d
        f:f32[3] = reduce_sum[axes=[1]] e in (d,f) })",
     R"({ lambda a:f32[3,4] b:f32[4]. let d:f32[3,4] f:f32[3] = fused[body={ lambda a:f32[3,4] b:f32[4].
          let c:f32[3,4] = broadcast_in_dim[dims=[1] shape=[3,4]] b
              d:f32[3,4] = add a c
              e:f32[3,4] = exp d
              f:f32[3] = reduce_sum[axes=[1]] e
          in (d,f) }] a b in (d,f) })"},
    {"sums of a value, but not what is computed from them",
     R"({ lambda a:f32[6,4]. let b:f32[6,4] = mul a a
        c:f32[4] = reduce_sum[axes=[0]] b
        d:f32[6,4] = broadcast_in_dim[dims=[1] shape=[6,4]] c
        e:f32[6,4] = div b d in (e,) })",
     R"({ lambda a:f32[6,4]. let c:f32[4] = fused[body={ lambda a:f32[6,4]. let b:f32[6,4] = mul a a
              c:f32[4] = reduce_sum[axes=[0]] b
          in (c,) }] a
        e:f32[6,4] = fused[body={ lambda a:f32[6,4] c:f32[4]. let b:f32[6,4] = mul a a
              d:f32[6,4] = broadcast_in_dim[dims=[1] shape=[6,4]] c
              e:f32[6,4] = div b d
          in (e,) }] a c in (e,) })"},
    {"a large sum over all elements, outside of maps",
     R"({ lambda a:f32[512,256]. let b:f32[512,256] = mul a a
        c:f32[] = reduce_sum[axes=[0,1]] b in (c,) })",
     R"({ lambda a:f32[512,256]. let c:f32[] = fused[body={ lambda a:f32[512,256].
          let b:f32[512,256] = mul a a
              c:f32[] = reduce_sum[axes=[0,1]] b
          in (c,) }] a in (c,) })"},
    {"none over a part of the dimensions, and none of what is not cut",
     R"({ lambda a:f32[512,256] b:f32[256]. let c:f32[512,256] = mul a a
        d:f32[256] = reduce_sum[axes=[0]] c
        e:f32[512,256] = broadcast_in_dim[dims=[1] shape=[512,256]] b
        f:f32[512,256] = mul c e
        g:f32[512,256] = neg f
        h:f32[] = reduce_sum[axes=[0,1]] g in (d,h) })",
     R"({ lambda a:f32[512,256] b:f32[256]. let c:f32[512,256] g:f32[512,256] = fused[body={ lambda a:f32[512,256] b:f32[256].
          let c:f32[512,256] = mul a a
              e:f32[512,256] = broadcast_in_dim[dims=[1] shape=[512,256]] b
              f:f32[512,256] = mul c e
              g:f32[512,256] = neg f
          in (c,g) }] a b
        d:f32[256] = reduce_sum[axes=[0]] c
        h:f32[] = reduce_sum[axes=[0,1]] g in (d,h) })"},
    {"what nothing waits for is computed where all that it reads is read again",
     R"({ lambda a:f32[4] b:f32[4] s:f32[]. let c:f32[4] = mul a a
        d:f32[] = reduce_sum[axes=[0]] c
        e:f32[] = cos s
        f:f32[4] = broadcast_in_dim[dims=[] shape=[4]] e
        g:f32[4] = mul a f
        h:f32[4] = add g b
        i:f32[] = reduce_sum[axes=[0]] h
        j:f32[] = div d i in (h,j) })",
     R"({ lambda a:f32[4] b:f32[4] s:f32[]. let e:f32[] = cos s
        h:f32[4] d:f32[] i:f32[] = fused[body={ lambda a:f32[4] e:f32[] b:f32[4].
          let c:f32[4] = mul a a
              f:f32[4] = broadcast_in_dim[dims=[] shape=[4]] e
              g:f32[4] = mul a f
              h:f32[4] = add g b
              d:f32[] = reduce_sum[axes=[0]] c
              i:f32[] = reduce_sum[axes=[0]] h
          in (h,d,i) }] a e b
        j:f32[] = div d i in (h,j) })"},
    {"not where another has to wait, or memory lives longer",
     R"({ lambda a:f32[4] b:f32[4] s:f32[1]. let c:f32[4] = mul a b
        d:f32[1] = cumsum[axis=0 reverse=false] s
        e:f32[4] = broadcast_in_dim[dims=[0] shape=[4]] d
        f:f32[4] = mul a e in (c,f) })",
     R"({ lambda a:f32[4] b:f32[4] s:f32[1]. let c:f32[4] = mul a b
        d:f32[1] = cumsum[axis=0 reverse=false] s
        f:f32[4] = fused[body={ lambda a:f32[4] d:f32[1].
          let e:f32[4] = broadcast_in_dim[dims=[0] shape=[4]] d
              f:f32[4] = mul a e
          in (f,) }] a d in (c,f) })"},
    {"bits are as quick to compute again as sums are",
     R"({ lambda a:i32[6,4]. let b:i32[6,4] = bitwise_and a a
        x:f32[6,4] = convert[dtype=f32] b
        c:f32[4] = reduce_sum[axes=[0]] x
        d:f32[6,4] = broadcast_in_dim[dims=[1] shape=[6,4]] c
        e:f32[6,4] = div x d in (e,) })",
     R"({ lambda a:i32[6,4]. let c:f32[4] = fused[body={ lambda a:i32[6,4]. let b:i32[6,4] = bitwise_and a a
              x:f32[6,4] = convert[dtype=f32] b
              c:f32[4] = reduce_sum[axes=[0]] x
          in (c,) }] a
        e:f32[6,4] = fused[body={ lambda a:i32[6,4] c:f32[4]. let b:i32[6,4] = bitwise_and a a
              x:f32[6,4] = convert[dtype=f32] b
              d:f32[6,4] = broadcast_in_dim[dims=[1] shape=[6,4]] c
              e:f32[6,4] = div x d
          in (e,) }] a c in (e,) })"},
    {"sums over other dimensions stand apart",
     R"({ lambda a:f32[2,6,4]. let b:f32[2,6,4] = mul a a
        c:f32[2,4] = reduce_sum[axes=[1]] b in (c,) })",
     R"({ lambda a:f32[2,6,4]. let b:f32[2,6,4] = mul a a
        c:f32[2,4] = reduce_sum[axes=[1]] b in (c,) })"},
    {"what leads out and back in is cut",
     R"({ lambda a:f32[4]. let b:f32[4] = exp a
        c:f32[4] = neg b
        d:f32[4] = cumsum[axis=0 reverse=false] c
        e:f32[4] = mul d b
        f:f32[4] = add e b in (f,) })",
     R"({ lambda a:f32[4]. let c:f32[4] = fused[body={ lambda a:f32[4].
          let b:f32[4] = exp a
              c:f32[4] = neg b
          in (c,) }] a
        d:f32[4] = cumsum[axis=0 reverse=false] c
        f:f32[4] = fused[body={ lambda a:f32[4] d:f32[4].
          let b:f32[4] = exp a
              e:f32[4] = mul d b
              f:f32[4] = add e b
          in (f,) }] a d in (f,) })"},
    {"what a value is made of is read rather than the value, where all that read it can compute it",
     R"({ lambda a:f32[4] b:f32[4]. let c:f32[4] = add a b
        d:f32[4] = tanh c
        e:f32[4] = mul d d
        f:f32[4] = mul c d
        g:f32[4] = cumsum[axis=0 reverse=false] f
        h:f32[4] = mul g c
        i:f32[4] = mul h d
        j:f32[4] = sub i e in (j,) })",
     R"({ lambda a:f32[4] b:f32[4]. let c:f32[4] f:f32[4] = fused[body={ lambda a:f32[4] b:f32[4].
          let c:f32[4] = add a b
              d:f32[4] = tanh c
              f:f32[4] = mul c d
          in (c,f) }] a b
        g:f32[4] = cumsum[axis=0 reverse=false] f
        j:f32[4] = fused[body={ lambda c:f32[4] g:f32[4]. let d:f32[4] = tanh c
              e:f32[4] = mul d d
              h:f32[4] = mul g c
              i:f32[4] = mul h d
              j:f32[4] = sub i e
          in (j,) }] c g in (j,) })"},
    {"it is kept where it is made of more than it spares",
     R"({ lambda a:f32[4] b:f32[4] c:f32[4]. let d:f32[4] = mul a b
        e:f32[4] = add d c
        f:f32[4] = cumsum[axis=0 reverse=false] e
        g:f32[4] = mul f e
        h:f32[4] = neg g in (h,) })",
     R"({ lambda a:f32[4] b:f32[4] c:f32[4]. let e:f32[4] = fused[body={ lambda a:f32[4] b:f32[4] c:f32[4].
          let d:f32[4] = mul a b
              e:f32[4] = add d c
          in (e,) }] a b c
        f:f32[4] = cumsum[axis=0 reverse=false] e
        h:f32[4] = fused[body={ lambda f:f32[4] e:f32[4]. let g:f32[4] = mul f e
              h:f32[4] = neg g
          in (h,) }] f e in (h,) })"},
    {"a value that stays in memory is computed again where that costs no other operand",
     R"({ lambda a:f32[4]. let b:f32[4] = exp a
        c:f32[4] = neg b
        d:f32[4] = cumsum[axis=0 reverse=false] c
        e:f32[4] = mul d a
        f:f32[4] = sub e b in (b,f) })",
     R"({ lambda a:f32[4]. let b:f32[4] c:f32[4] = fused[body={ lambda a:f32[4]. let b:f32[4] = exp a
              c:f32[4] = neg b
          in (b,c) }] a
        d:f32[4] = cumsum[axis=0 reverse=false] c
        f:f32[4] = fused[body={ lambda a:f32[4] d:f32[4]. let b:f32[4] = exp a
              e:f32[4] = mul d a
              f:f32[4] = sub e b
          in (f,) }] a d in (b,f) })"},
    {"two that read one value, and only one op is left alone",
     R"({ lambda a:f32[4] b:f32[2]. let c:f32[4] = abs a
        d:bool[4] = less a a
        e:f32[2] = sqrt b in (c,d,e) })",
     R"({ lambda a:f32[4] b:f32[2]. let c:f32[4] d:bool[4] = fused[body={ lambda a:f32[4].
          let b:f32[4] = abs a
              c:bool[4] = less a a
          in (b,c) }] a
        e:f32[2] = sqrt b in (c,d,e) })"},
    {"what one group alone reads is computed there",
     R"({ lambda a:f32[4] b:f32[4]. let c:f32[4] = mul a a
        d:f32[4] = cumsum[axis=0 reverse=false] b
        e:f32[4] = exp d
        f:f32[4] = add c e in (f,) })",
     R"({ lambda a:f32[4] b:f32[4]. let d:f32[4] = cumsum[axis=0 reverse=false] b
        f:f32[4] = fused[body={ lambda a:f32[4] d:f32[4]. let c:f32[4] = mul a a
              e:f32[4] = exp d
              f:f32[4] = add c e
          in (f,) }] a d in (f,) })"},
    {"a result of the function may be computed later, with what reads it",
     R"({ lambda a:f32[4] b:f32[]. let c:f32[4] = mul a a
        d:f32[4] = neg c
        e:f32[] = sin b
        f:f32[4] = broadcast_in_dim[dims=[] shape=[4]] e
        g:f32[4] = div d f in (d,g) })",
     R"({ lambda a:f32[4] b:f32[]. let e:f32[] = sin b
        d:f32[4] g:f32[4] = fused[body={ lambda a:f32[4] e:f32[]. let c:f32[4] = mul a a
              d:f32[4] = neg c
              f:f32[4] = broadcast_in_dim[dims=[] shape=[4]] e
              g:f32[4] = div d f
          in (d,g) }] a e in (d,g) })"},
    {"what a group reads does not come before what stood before it, however early one of its members stood",
     R"({ lambda a:f32[4] b:f32[4]. let c:f32[4] = neg a
        d:f32[4] = cumsum[axis=0 reverse=false] b
        e:f32[4] = cumprod[axis=0 reverse=false] d
        f:f32[4] = cumsum[axis=0 reverse=true] d
        g:f32[4] = mul f c in (e,g) })",
     R"({ lambda a:f32[4] b:f32[4]. let d:f32[4] = cumsum[axis=0 reverse=false] b
        e:f32[4] = cumprod[axis=0 reverse=false] d
        f:f32[4] = cumsum[axis=0 reverse=true] d
        g:f32[4] = fused[body={ lambda a:f32[4] f:f32[4]. let c:f32[4] = neg a
              g:f32[4] = mul f c
          in (g,) }] a f in (e,g) })"},
    {"but not where somebody else reads it before",
     R"({ lambda a:f32[4]. let c:f32[4] = mul a a
        d:f32[4] = neg c
        e:f32[4] = cumsum[axis=0 reverse=false] d
        f:f32[4] = exp e
        g:f32[4] = div d f in (d,g) })",
     R"({ lambda a:f32[4]. let d:f32[4] = fused[body={ lambda a:f32[4]. let c:f32[4] = mul a a
              d:f32[4] = neg c
          in (d,) }] a
        e:f32[4] = cumsum[axis=0 reverse=false] d
        g:f32[4] = fused[body={ lambda e:f32[4] d:f32[4]. let f:f32[4] = exp e
              g:f32[4] = div d f
          in (g,) }] e d in (d,g) })"},
    {"but not where it is smaller than what it is computed from",
     R"({ lambda a:f32[4] b:f32[4]. let c:f32[4] = exp a
        d:bool[4] = less_equal c a
        e:f32[4] = cumsum[axis=0 reverse=false] b
        f:f32[4] = select d e b
        g:f32[4] = cumsum[axis=0 reverse=false] c in (f,g) })",
     R"({ lambda a:f32[4] b:f32[4]. let c:f32[4] d:bool[4] = fused[body={ lambda a:f32[4]. let c:f32[4] = exp a
              d:bool[4] = less_equal c a
          in (c,d) }] a
        e:f32[4] = cumsum[axis=0 reverse=false] b
        f:f32[4] = select d e b
        g:f32[4] = cumsum[axis=0 reverse=false] c in (f,g) })"},
    {"other shapes and dtypes stand apart",
     R"({ lambda a:f32[4] b:f64[4]. let c:f64[4] = mul b b
        d:f64[4] = add c b
        e:f32[4] = sin a
        f:f32[4] = cos e in (d,f) })",
     R"({ lambda a:f32[4] b:f64[4]. let c:f64[4] = mul b b
        d:f64[4] = add c b
        e:f32[4] = sin a
        f:f32[4] = cos e in (d,f) })"},
};

}  // namespace

TEST_CASE("element-wise equations are fused") {
  for (const Golden& golden : fuse_table) {
    CAPTURE(golden.what);
    CHECK(fused(golden.before) == printed(golden.after));
  }
}

TEST_CASE("optimizers' updates of many arrays of one shape are not cut") {
  constexpr int arrays = 8;
  std::string inputs = "s:f32[] t:f32[]", equations, results;
  for (int i = 0; i < arrays; ++i) {
    const auto line = [&](std::string text) {  // names end in the array's letter
      for (std::size_t at = text.find('_'); at != std::string::npos; at = text.find('_', at)) {
        text.replace(at, 1, std::string{'z', static_cast<char>('a' + i)});
      }
      return text;
    };
    inputs += line(" x_:f32[4] m_:f32[4] v_:f32[4] p_:f32[4]");
    equations += line(R"(
      g_:f32[4] = reverse[dims=[0]] x_
      a_:f32[4] = mul g_ rate
      b_:f32[4] = mul m_ decay
      c_:f32[4] = mul a_ less
      d_:f32[4] = add b_ c_
      e_:f32[4] = mul v_ decay
      f_:f32[4] = mul a_ a_
      h_:f32[4] = mul f_ less
      i_:f32[4] = add e_ h_
      j_:f32[4] = mul d_ scale
      k_:f32[4] = mul i_ scale
      l_:f32[4] = sqrt k_
      n_:f32[4] = add l_ decay
      o_:f32[4] = div j_ n_
      q_:f32[4] = mul p_ less
      r_:f32[4] = add o_ q_
      u_:f32[4] = mul r_ rate
      w_:f32[4] = add p_ u_)");
    results += line(i == 0 ? "d_,i_,w_" : ",d_,i_,w_");
  }
  const std::string constants = R"(decay:f32[4] = full[dtype=f32 shape=[4] value=0.5]
      less:f32[4] = full[dtype=f32 shape=[4] value=0.25]
      rate:f32[4] = broadcast_in_dim[dims=[] shape=[4]] s
      scale:f32[4] = broadcast_in_dim[dims=[] shape=[4]] t)";
  const std::string text = "{ lambda " + inputs + ". let " + constants + equations + " in (" + results + ") }";
  const ir::FunctionPtr result = run_pass(passes::fuse, text);
  std::vector<ir::Var> written;
  for (const ir::Equation& e : result->equations()) {
    if (e.primitive->name != "fused") continue;
    for (const ir::Var v : e.inputs) CHECK(std::ranges::count(written, v) == 0);
    written.insert(written.end(), e.outputs.begin(), e.outputs.end());
  }
  CHECK(written.size() == 3 * arrays);
}

TEST_CASE("bodies of maps and loops are fused, and varying values apart from invariant ones") {
  const std::string text = fused(R"({ lambda a:f32[4] b:f32[4].
      let c:f32[4] = pmap[axes=batch body={ lambda [batch=2]; a:f32[2]{batch} b:f32[4].
            let c:f32[4] = mul b b
                d:f32[4] = add c b
                e:f32[] = reduce_sum[axes=[0]] d
                f:f32[]{batch} = pvary[axes=batch] e
                g:f32[2]{batch} = broadcast_in_dim[dims=[] shape=[2]] f
                h:f32[2]{batch} = mul a g
                i:f32[2]{batch} = exp h
            in (i,) } devices={"cpu:0"} in=({batch},{""}) out=({batch}) sizes=[2]] a b
      in (c,) })");
  CHECK(text.find(":f32[] = fused[") != std::string::npos);
  CHECK(text.find("f32[2]{batch} = fused[") != std::string::npos);
  const std::string loop = fused(R"({ lambda a:f32[4].
      let b:f32[4] = scan[body={ lambda a:f32[4]. let b:f32[4] = mul a a
              c:f32[4] = sub b a in (c,) } carries=1 consts=0 length=3 reverse=false unroll=1] a in (b,) })");
  CHECK(loop.find("= fused[") != std::string::npos);
}

}  // namespace lockstep::tests
