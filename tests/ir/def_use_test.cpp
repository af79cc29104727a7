#include "engine/ir/def_use.h"

#include <vector>

#include <doctest/doctest.h>

#include "engine/ir/text/parse.h"
#include "engine/ops/primitives.h"

namespace lockstep::tests {
namespace {

using ir::DefUse;

}  // namespace

TEST_CASE("def-use chains of a function: what defines each var, and every use of it") {
  const ir::FunctionPtr f = ir::parse(R"({ lambda a:f32[4] b:f32[4].
      let c:f32[4] = mul a a
          d:f32[4] = add c b
          e:f32[4] = exp c
      in (d, c) })",
                                      ops::find_primitive);
  const DefUse chains(*f);
  const std::vector<ir::Equation>& equations = f->equations();
  const ir::Var a = f->inputs()[0], b = f->inputs()[1], c = equations[0].outputs[0];
  CHECK(chains.definition(a) == DefUse::nobody);
  CHECK(chains.definition(c) == 0);
  CHECK(chains.definition(equations[2].outputs[0]) == 2);
  CHECK(chains.uses(a) == std::vector<int>{0, 0});
  CHECK(chains.uses(b) == std::vector<int>{1});
  CHECK(chains.uses(c) == std::vector<int>{1, 2, DefUse::nobody});
  CHECK(chains.uses(equations[2].outputs[0]).empty());
}

TEST_CASE("def-use chains that are filled one by one: the last definition counts, and a use may be dropped") {
  DefUse chains(2);
  chains.define(0, 3);
  chains.define(0, 5);
  CHECK(chains.definition(0) == 5);
  CHECK(chains.definition(1) == DefUse::nobody);
  chains.use(1, 7);
  chains.use(1, 7);
  CHECK_FALSE(chains.has_several_users(1));
  chains.use(1, DefUse::nobody);
  CHECK(chains.has_several_users(1));
  chains.drop_use(1, 7);
  CHECK(chains.uses(1) == std::vector<int>{DefUse::nobody});
}

}  // namespace lockstep::tests
