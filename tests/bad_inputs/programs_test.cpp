// Texts that are no programs, and functions and trees without end.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/exchange.h>
#include <lockstep/lockstep.h>

#include "tests/bad_inputs/rows.h"
#include "tests/support/expect_error.h"

namespace lockstep::tests {
namespace {

/// A program of one argument, f32[4], whose body is these equations, and that returns b.
std::string program(const std::string& equations) { return "{ lambda a:f32[4]. let " + equations + " in (b,) }"; }

void parse_of(const std::string& equations) { parse_function(program(equations)); }

/// A value in `levels` lists.
Tree nested(int levels) {
  Tree tree(ones({1}));
  for (int i = 0; i < levels; ++i) tree = Tree::list({tree});
  return tree;
}

std::string slashes(std::size_t count) {
  std::string name = "a";
  for (std::size_t i = 0; i < count; ++i) name += "/a";
  return name;
}

/// A tree of a user's own, as deep as it is long.
struct Chain {
  Array value;
  std::vector<Chain> rest;
};
LOCKSTEP_TREE(Chain, value, rest);

}  // namespace

TEST_CASE("bad inputs 138: programs that tracing would never make") {
  all_refused(
      138,
      {[] { parse_function("{ lambda [batch=4]; a:f32[2]{batch}. let b:f32[2] = psum[axes=batch] a in (b,) }"); },
       [] { parse_function("{ lambda [batch=1]; a:f32[2]. in (a,) }"); },
       [] { parse_of("b:f32[4] = psum[axes=batch] a"); },
       [] { parse_of("b:f32[4] = all_gather[axis=batch dim=0] a"); },
       [] { parse_of("b:i32[] = axis_index[axis=batch]"); },
       [] { parse_of("b:f32[4]{batch} = pvary[axes=batch] a"); },
       [] { parse_of("b:f32[4] = sin[axis=1] a"); },
       [] { parse_of("b:f32[4] = sin[] a c"); },
       [] { parse_of("b:f32[4] = add[dtype=f32] a a"); },
       [] { parse_of("b:f32[2] = slice[start=[0] limit=[2] strides=[1] step=[1]] a"); },
       [] { parse_of("b:f32[2] = slice[start=[0] limit=[2]] a"); },
       [] { parse_of("b:f32[2] = slice[start=[0] limit=[2] strides=[0]] a"); },
       [] { parse_of("b:f32[2] = slice[start=[0] limit=[2] strides=[1] start=[0]] a"); },
       [] { parse_of("b:f32[] = reduce_sum[axes=[0] keep=true] a"); },
       [] { parse_of("b:f32[] = reduce_sum[axes=[1]] a"); },
       [] { parse_of("b:f32[] = reduce_sum[axes=true] a"); },
       [] { parse_of("b:f32[5] = sin a"); },
       [] { parse_of("b:i32[4] = sin a"); },
       [] { parse_of("b:f32[4] = sine a"); },
       [] { parse_of("b:f32[4] = sin c"); },
       [] { parse_of("b:f32[4] = sin b"); },
       [] { parse_of("b:f32[4] = add a"); },
       [] { parse_of("b:f32[4] = add a a a"); },
       [] { parse_of("a:f32[4] = sin a"); },
       [] { parse_of("b:f32[4] = sin a b:f32[4] = cos a"); },
       [] { parse_of("b:f33[4] = sin a"); },
       [] { parse_of("b:f32[-4] = sin a"); },
       [] { parse_of("b:f32[4611686018427387904] = broadcast_in_dim[shape=[4611686018427387904] dims=[0]] a"); },
       [] { parse_of("b:f32[4] = custom_call[op=x] a"); },
       [] { parse_of("b:f32[4] = full[dtype=f32 shape=[4] value=nan:1]"); },
       [] { parse_of("b:f32[4] = full[dtype=f32 shape=[4] value=1e999]"); },
       [] { parse_of("b:f32[4] = sin a }"); },
       [] { parse_function(""); },
       [] { parse_function("{"); },
       [] { parse_function(std::string("{\0}", 3)); },
       [] { parse_function("{ lambda . in () } more"); },
       [] { parse_function("{ lambda a:f32[4]. in (b,) }"); },
       [] { parse_function("{ lambda a:f32[4] a:f32[4]. in (a,) }"); },
       [] { parse_function(std::string(100000, '{')); },
       [] { parse_function("{ lambda a:f32[4]. let b:f32[4] = sin" + std::string(100000, '[') + " a in (b,) }"); }});
}

TEST_CASE("bad inputs 139: texts of StableHLO") {
  const auto module = [](const std::string& body) {
    return "module @m {\n  func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n" + body + "  }\n}\n";
  };
  const std::string sine = "    %0 = stablehlo.sine %arg0 : tensor<4xf32>\n    return %0 : tensor<4xf32>\n";
  const std::string function = "func.func public @main(%arg0: tensor<4xf32>) -> tensor<4xf32> {\n" + sine + "}\n";
  all_refused(
      139,
      {[&] { exchange::from_stablehlo(function + function); },
       [&] { exchange::from_stablehlo("module {\n" + function + function + "}\n"); },
       [&] { exchange::from_stablehlo(""); }, [&] { exchange::from_stablehlo("module {}"); },
       [&] { exchange::from_stablehlo(module("")); },
       [&] { exchange::from_stablehlo(module("    return %1 : tensor<4xf32>\n")); },
       [&] { exchange::from_stablehlo(module("    %0 = stablehlo.nothing %arg0 : tensor<4xf32>\n" + sine)); },
       [&] {
         exchange::from_stablehlo(module(
             "    %0 = func.call @other(%arg0) : (tensor<4xf32>) -> tensor<4xf32>\n    return %0 : tensor<4xf32>\n"));
       },
       [&] {
         exchange::from_stablehlo(module(
             "    %0 = func.call @main(%arg0) : (tensor<4xf32>) -> tensor<4xf32>\n    return %0 : tensor<4xf32>\n"));
       },
       [&] { exchange::from_stablehlo("module {\n" + std::string(100000, '{')); },
       [&] { exchange::from_stablehlo(std::string(100000, '(')); }});
}

TEST_CASE("bad inputs 140: trees, names and functions without end") {
  all_refused(140, {[] { nested(200000); }, [] { nested(1001); }, [] { Tree().with(slashes(300000), Tree(ones({1}))); },
                    [] {
                      static_cast<void>(Tree::dict({{"a", Tree(ones({1}))}}).at(slashes(300000)));
                    },
                    [] {
                      Chain chain{ones({1}), {}};
                      for (int i = 0; i < 2000; ++i) {
                        Chain next{ones({1}), {}};
                        next.rest.push_back(std::move(chain));
                        chain = std::move(next);
                      }
                      to_tree(chain);
                    }});
  row(140, [] {
    CHECK(nested(1000).size() == 1);
    CHECK(nested(500).leaves().size() == 1);
    std::string path = "a";
    for (int i = 0; i < 500; ++i) path += "/b";
    CHECK(Tree().with(path, Tree(ones({1}))).paths() == std::vector{path});
  });
}

TEST_CASE("functions that call themselves without end are refused before the stack ends") {
  const std::vector<std::function<void()>> functions = {
      [] {
        std::function<Array(const Array&)> forever = [&](const Array& x) { return jit(forever)(x + 1); };
        jit(forever)(ones({1}));
      },
      [] {
        std::function<Array(const Array&)> forever = [&](const Array& x) { return forever(x + 1) + 1; };
        jit(forever)(ones({1}));
      },
      [] {
        std::function<Array(const Array&)> forever = [&](const Array& x) { return forever(x + 1) + 1; };
        forever(ones({1}));
      },
      [] {
        std::function<Array(const Array&)> forever = [&](const Array& x) { return grad(forever)(x); };
        grad(forever)(array(1.0F));
      },
      [] {
        std::function<Array(const Array&)> forever = [&](const Array& x) {
          return vmap(forever)(expand_dims(x, 0))[0];
        };
        forever(ones({1}));
      }};
  for (const auto& function : functions) {
    expect_error<TraceError>(function, "the stack of this thread is used up", "write scan, fori_loop or while_loop");
  }
}

}  // namespace lockstep::tests
