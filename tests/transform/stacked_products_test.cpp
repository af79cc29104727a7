#include <string>

#include <doctest/doctest.h>

#include "engine/ir/text/parse.h"
#include "engine/ir/verify.h"
#include "engine/ops/primitives.h"
#include "engine/transform/transforms.h"

// The derivative of a loop for a weight that its iterations multiply by: one product of all of them.
namespace lockstep::tests {
namespace {

/// h <- tanh(x + h w) over the rows of c, with a weight of `width` squared; batches of `rows`.
std::string recurrence(int rows, int width) {
  const std::string n = std::to_string(rows), k = std::to_string(width);
  const std::string state = "f32[" + n + "," + k + "]", weight = "f32[" + k + "," + k + "]";
  return "{ lambda a:" + weight + " b:" + state + " c:f32[4," + n + "," + k + "]. let d:" + state +
         " = scan[body={ lambda e:" + weight + " f:" + state + " g:" + state + ". let h:" + state +
         " = dot_general[batch=([],[]) contract=([1],[0])] f e i:" + state + " = add g h j:" + state +
         " = tanh i in (j) } carries=1 consts=1 length=4 reverse=false unroll=1] a b c in (d) }";
}

/// The derivative for the weight alone, without what it does not need.
ir::FunctionPtr weight_gradient(const std::string& text) {
  const ir::FunctionPtr f = ir::parse(text, ops::find_primitive);
  ir::FunctionPtr result = transform::vjp(f, {true, false, false});
  ir::verify(*result);
  return result;
}

// The forward loop stacks the slopes of tanh, x; the backward one the cotangents, j, beside the rows that the forward one has stacked, f; k is their product.
const char* const stacked = R"({ lambda a:f32[3,3] b:f32[2,3] c:f32[4,2,3] d:f32[2,3].
  let e:f32[2,3] f:f32[4,2,3] g:f32[4,2,3] = scan[body={ lambda a:f32[3,3] b:f32[2,3] c:f32[2,3].
          let d:f32[2,3] = dot_general[batch=([],[]) contract=([1],[0])] b a
              e:f32[2,3] = add c d
              f:f32[2,3] = tanh e
              g:f32[2,3] = mul f f
              h:f32[2,3] = full[dtype=f32 shape=[2,3] value=2.0]
              i:f32[2,3] = mul e h
              j:f32[2,3] = neg i
              k:f32[2,3] = full[dtype=f32 shape=[2,3] value=0.0]
              l:bool[2,3] = greater i k
              m:f32[2,3] = select l j i
              n:f32[2,3] = logistic m
              o:f32[2,3] = full[dtype=f32 shape=[2,3] value=1.0]
              p:f32[2,3] = sub o n
              q:f32[2,3] = mul n p
              r:f32[2,3] = full[dtype=f32 shape=[2,3] value=4.0]
              s:f32[2,3] = mul q r
              t:f32[2,3] = full[dtype=f32 shape=[2,3] value=1.0]
              u:f32[2,3] = sub t g
              v:f32[2,3] = full[dtype=f32 shape=[2,3] value=0.25]
              w:bool[2,3] = less g v
              x:f32[2,3] = select w u s
          in (f,b,x) } carries=1 consts=1 length=4 reverse=false unroll=1] a b c
      h:f32[2,3] = full[dtype=f32 shape=[2,3] value=0.0]
      i:f32[2,3] j:f32[4,2,3] = scan[body={ lambda a:f32[3,3] b:f32[2,3] c:f32[2,3] d:f32[2,3].
          let e:f32[2,3] = mul b d
              f:f32[2,3] = dot_general[batch=([],[]) contract=([1],[1])] e a
          in (f,e) } carries=1 consts=1 length=4 reverse=true unroll=1] a d f g
      k:f32[3,3] = dot_general[batch=([],[]) contract=([0,1],[0,1])] f j
  in (e,k) })";

// What each iteration would stack is larger than the sum: it is added up in the loop.
const char* const summed = R"(          let f:f32[20,3] = mul c e
              g:f32[3,3] = dot_general[batch=([],[]) contract=([0],[0])] d f
              h:f32[20,3] = dot_general[batch=([],[]) contract=([1],[1])] f a
              i:f32[3,3] = add b g
          in (i,h) } carries=2 consts=1 length=4 reverse=true unroll=1] a i d f g
  in (e,j) })";

}  // namespace

TEST_CASE("a weight's gradient over a loop is one product, along the iterations too") {
  CHECK(weight_gradient(recurrence(2, 3))->print(0) == stacked);
}

TEST_CASE("a weight's gradient is added up where factors are larger than sums") {
  const std::string text = weight_gradient(recurrence(20, 3))->print(0);
  CHECK_MESSAGE(text.ends_with(summed), text);
}

}  // namespace lockstep::tests
