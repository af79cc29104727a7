#include <functional>
#include <map>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"

using namespace lockstep;

TEST_CASE("a name that is written out twice in a table is an error, wherever a table is taken") {
  const Weighted one{ones({}), ones({})};
  const optim::GradientTransformation sgd = optim::sgd(0.1);
  const StepLoss loss = [&](const Tree&, const Tree& state, const Batch&) { return WithAux{Loss(one), state, {}}; };
  const std::string file = "unwritten.safetensors";
  struct Row {
    const char* what;
    std::function<void()> call;
  };
  const std::vector<Row> rows = {
      {"aggregations",
       [] {
         DataParallelOptions{.aggregations = {{"w", Aggregation::mean}, {"w", Aggregation::sum}}};
       }},
      {"optimizers",
       [&] {
         Objective{.name = {}, .loss = loss, .optimizers = {{"w", sgd}, {"b", sgd}, {"w", sgd}}};
       }},
      {"metrics",
       [&] {
         WithAux{Loss(one), Tree(), {{"w", one}, {"w", one}}};
       }},
      {"manifest of a checkpoint",
       [&] {
         checkpoint::save("unwritten", Tree(ones({})), {{"w", "1"}, {"w", "2"}});
       }},
      {"tensors of a file",
       [&] {
         checkpoint::save_safetensors(file, {{"w", ones({1})}, {"w", ones({2})}});
       }},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    tests::expect_error<ValueError>([&] { static_cast<void>(row.call()); }, "the name \"w\" is given twice");
  }
  tests::expect_error<StateError>(
      [&] {
        static_cast<void>(Tree::dict({{"w", Tree(ones({}))}, {"w", Tree(ones({}))}}));
      },
      "w");
  tests::expect_error<MeshError>([&] { static_cast<void>(Layout({{0, "a"}, {0, "b"}})); }, "0");
  tests::expect_error<IrError>([&] { static_cast<void>(Attrs({{"w", true}, {"w", false}})); }, "w");
}

TEST_CASE("a table by name is a map") {
  const Named<std::string> table = {{"b", "2"}, {"a", "1"}};
  CHECK(table == std::map<std::string, std::string>{{"a", "1"}, {"b", "2"}});
  const Named<std::string> same = std::map<std::string, std::string>(table);
  CHECK(same == table);
  CHECK(Named<int>().empty());
  CHECK(from_tree<Named<double>>(to_tree(Named<double>{{"x", 0.5}})).at("x") == 0.5);
}
