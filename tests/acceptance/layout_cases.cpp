#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"
#include "tests/support/expect_error.h"
#include "tests/support/training.h"

// Layouts of variables by path, of models that know of no mesh.
namespace lockstep::tests {
namespace {

/// The batch over one axis, variables over the other.
Mesh plane(const Replicas& replicas) {
  return Mesh({{"data", replicas.shards / 2}, {"model", 2}}, cpu_devices(replicas.devices));
}

Model<Array, Array> two_layers() {
  return Model<Array, Array>([](const Scope& s, const Array& x) {
    return dense(s["out"], dropout(s["drop"], relu(dense(s["in"], x, {.units = 8})), 0.25), {.units = 1});
  });
}

TrainStep step_with(const Replicas& replicas, const LayoutMap& layouts, bool strict = false) {
  return model_parallel(loss_of(two_layers()), optim::adam(0.01),
                        {.mesh = plane(replicas), .layouts = layouts, .strict = strict});
}

Batch rows() { return regression_batch(16, 6, float32); }

Array kernel_of(const TrainState& state) { return state.trainable.at("in/kernel").array(); }

Tree axis_that_is_not_there(const Replicas& replicas) {
  expect_error<MeshError>(
      [&] {
        const Array x = reshard(ones({8}), plane(replicas), sharded("tensor"));
        static_cast<void>(x);
      },
      "there is no axis \"tensor\"", "the axes are data=", "model=2");
  const LayoutMap written_before = {{"in/kernel", sharded("tensor", 1)}};  // where no mesh is, nothing is wrong yet
  expect_error<MeshError>([&] { step_with(replicas, written_before); },
                          "the rule \"in/kernel\" cuts dimension 1 along \"tensor\"", "one of \"data\", \"model\"");
  return {};
}

Tree rules_of_a_path(const Replicas& replicas) {
  const LayoutMap layouts({{"in/kernel", sharded("model", 1)}, {".*kernel", sharded("model", 0)}});
  const TrainStep step = step_with(replicas, layouts);
  const TrainState state = step(fresh_state(step, two_layers(), rows()), rows()).first;
  CHECK(layout_of(kernel_of(state)) == sharded("model", 1));  // the path itself
  CHECK(layout_of(state.trainable.at("out/kernel").array()) == sharded("model", 0));
  CHECK_FALSE(is_cut(state.trainable.at("in/bias").array()));
  const TrainStep of_two = step_with(replicas, {{".*kernel", replicated}, {"in.*", replicated}});
  expect_error<MeshError>([&] { static_cast<void>(fresh_state(of_two, two_layers(), rows())); },
                          "\"in/kernel\" matches multiple layouts");
  return to_tree(gather(to_tree(state)));
}

Tree part_of_a_path(const Replicas& replicas) {
  const LayoutMap layouts({{"in", sharded("model", 1)}, {"kernel", sharded("model")}});
  CHECK(layouts.at("in/kernel") == replicated);
  CHECK(layouts.at("dense_1/kernel") == replicated);
  CHECK(LayoutMap({{"dense", sharded("model")}}).at("dense_1/kernel") == replicated);
  const TrainStep step = step_with(replicas, layouts);
  const TrainState state = fresh_state(step, two_layers(), rows());
  CHECK_FALSE(is_cut(kernel_of(state)));
  return to_tree(state);
}

Tree own_layout_goes_first(const Replicas& replicas) {
  const Model<Array, Array> declaring([](const Scope& s, const Array& x) {
    return sum(matmul(x, s.trainable("w", {.shape = {6, 8}, .layout = sharded("model", 0)})), Axes{1}, true);
  });
  const TrainStep step = model_parallel(loss_of(declaring), optim::sgd(0.1),
                                        {.mesh = plane(replicas), .layouts = {{"w", sharded("model", 1)}}});
  TrainState state = fresh_state(step, declaring, rows());
  for (int i = 0; i < 2; ++i) state = step(std::move(state), rows()).first;
  CHECK(layout_of(state.trainable.at("w").array()) == sharded("model", 0));
  return to_tree(gather(to_tree(state)));
}

Tree whole_values_for_cut_variables(const Replicas& replicas) {
  const TrainStep step = step_with(replicas, {{"in/kernel", sharded("model", 1)}});
  TrainState state = step(fresh_state(step, two_layers(), rows()), rows()).first;
  const TrainState as_it_lay = step(state, rows()).first;
  const Array whole = gather(kernel_of(state));
  CHECK_FALSE(is_cut(whole));
  state.trainable = state.trainable.with("in/kernel", Tree(whole));
  state = step(std::move(state), rows()).first;
  CHECK(layout_of(kernel_of(state)) == sharded("model", 1));
  CHECK(fingerprint(to_tree(state)) == fingerprint(to_tree(as_it_lay)));
  return to_tree(gather(to_tree(state)));
}

/// On meshes that came to be behind it.
Tree model_before_its_mesh(const Replicas& replicas) {
  const auto model = two_layers();
  const auto [trainable, state] = model.init(random::key(3), rows().x);
  const TrainStep cut = step_with(replicas, {{"in/kernel", sharded("model", 1)}, {"out/kernel", sharded("model")}});
  const TrainStep by_rows = data_parallel(loss_of(model), optim::adam(0.01), parallel(replicas));
  TrainState first = cut.init(trainable, state), second = by_rows.init(trainable, state);
  for (int i = 0; i < 3; ++i) {
    auto [next, logs] = cut(std::move(first), rows());
    auto [other, other_logs] = by_rows(std::move(second), rows());
    CHECK(logs.at("loss").item<float>() == doctest::Approx(other_logs.at("loss").item<float>()).epsilon(1e-5));
    first = std::move(next);
    second = std::move(other);
  }
  expect_error<MeshError>(
      [&] {
        static_cast<void>(step_with(replicas, {{"in/kernel", sharded("model", 2)}}).init(trainable, state));
      },
      "'in/kernel'", "dimension 2");
  return Tree::list({gather(to_tree(first)), to_tree(second)});
}

Tree rule_that_matches_nothing(const Replicas& replicas) {
  const LayoutMap layouts = {{"dense", sharded("model")}, {"in/bias", sharded("model")}};
  const TrainStep step = step_with(replicas, layouts);
  const LayoutPlan plan = layout_plan(step, fresh_state(step, two_layers(), rows()), rows());
  CHECK(plan.unused_rules == std::vector<std::string>{"dense"});
  CHECK(contains(plan.text, "\"dense\" matches no variable"));
  expect_error<MeshError>(
      [&] { static_cast<void>(fresh_state(step_with(replicas, layouts, true), two_layers(), rows())); },
      "the layout rule \"dense\" matches no variable", "'in/bias', 'in/kernel'");
  return {};
}

}  // namespace

std::vector<AcceptanceCase> layout_cases() {
  return {
      {"T71: an axis that the mesh has not is an error that lists those it has", axis_that_is_not_there, {2, 4, 8}},
      {"T72: a path goes before a pattern, two patterns of a path are an error, without a rule it is whole",
       rules_of_a_path,
       {2, 4, 8}},
      {"T73: a rule matches all of a path or not at all", part_of_a_path, {2, 4, 8}},
      {"T74: a layout that a variable declares goes before a rule that matches it", own_layout_goes_first, {2, 4, 8}},
      {"T76: a whole array given to a variable that lies cut is cut as the variable was",
       whole_values_for_cut_variables,
       {2, 4, 8}},
      {"T77: a model built before its mesh trains on any, or is an error before the first step",
       model_before_its_mesh,
       {2, 4, 8}},
      {"T80: a rule that matches no variable stands in the plan, and is an error where rules are strict",
       rule_that_matches_nothing,
       {2, 4, 8}}};
}

}  // namespace lockstep::tests
