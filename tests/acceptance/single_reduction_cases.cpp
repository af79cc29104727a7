#include <numeric>

#include <doctest/doctest.h>

#include "tests/acceptance/cases.h"
#include "tests/acceptance/weight_steps.h"
#include "tests/support/expect_error.h"
#include "tests/support/training.h"

// A gradient is reduced exactly once, whatever the mode: counted in what the step will do, and in what it has done.
// Reducing twice, not at all, or beside an aggregation is an error when the program is traced.
namespace lockstep::tests {
namespace {

std::int64_t executions(const Plan& plan) {
  return std::accumulate(plan.collective_costs.begin(), plan.collective_costs.end(), std::int64_t{0},
                         [](std::int64_t n, const CollectiveCost& cost) { return n + cost.times; });
}

std::int64_t psums_of(const Plan& plan, const Array& leaf) {
  const auto bytes = leaf.type().nbytes();
  std::int64_t times = 0;
  for (const CollectiveCost& cost : plan.collective_costs) {
    if (cost.op == "psum" && cost.bytes == bytes) times += cost.times;
  }
  return times;
}

/// A step whose trainable leaves are all of different sizes: each is reduced once, and nothing is that the plan does not
/// have.
TrainState reduced_once(const TrainStep& step, const TrainState& state, const Batch& batch) {
  const Plan plan = step.program(state, batch).plan();
  for (const std::string& path : state.trainable.paths()) {
    CAPTURE(path);
    CHECK(psums_of(plan, state.trainable.at(path).array()) == 1);
  }
  const std::int64_t before = collectives_executed();
  TrainState after = step(state, batch).first;
  CHECK(collectives_executed() - before == executions(plan));
  return after;
}

/// Layers in a scan of scans, each computed again for the backward pass; no two leaves of one size, none of size 1.
Model<Array, Array> nested_layers(Aggregation aggregation) {
  return Model<Array, Array>([aggregation](const Scope& scope, const Array& x) {
    const auto inner = [&](const Scope& layer, const Array& h) {
      const auto block = [&](const Array& v) {
        return v + tanh(dense(layer["in"], v, {.units = 5, .aggregation = aggregation}));
      };
      return remat(block)(h);
    };
    const auto outer = [&](const Scope& layer, const Array& h) { return scan_layers(layer["inner"], 2, inner, h); };
    const Array h = dense(scope["embed"], x, {.units = 5, .use_bias = false, .aggregation = aggregation});
    return dense(scope["head"], remat([&](const Array& v) { return scan_layers(scope["outer"], 3, outer, v); })(h),
                 {.units = 1, .use_bias = false, .aggregation = aggregation});
  });
}

Tree nested_scans(const Replicas& replicas) {
  const Batch batch = regression_batch(16, 3, float32);
  std::vector<Tree> results;
  for (const Aggregation aggregation :
       {Aggregation::none, Aggregation::mean, Aggregation::sum, Aggregation::only_first_replica}) {
    for (const std::int64_t microbatches : {1, 2}) {
      CAPTURE(name(aggregation));
      CAPTURE(microbatches);
      const auto model = nested_layers(aggregation);
      DataParallelOptions options = parallel(replicas);
      options.microbatches = microbatches;
      const TrainStep step = data_parallel(loss_of(model), optim::adam(0.01), options);
      results.push_back(to_tree(reduced_once(step, fresh_state(step, model, batch), batch)));
    }
  }
  return Tree::list(results);
}

Tree other_modes(const Replicas& replicas) {
  const Batch batch = regression_batch(16, 3, float32);
  const auto model = nested_layers(Aggregation::none);
  std::vector<Tree> results;
  const auto check = [&](const TrainStep& step) {
    results.push_back(to_tree(reduced_once(step, fresh_state(step, model, batch), batch)));
  };
  DataParallelOptions narrow = parallel(replicas);
  narrow.precision = Precision::bfloat16;
  check(data_parallel(loss_of(model), optim::sgd(0.1), narrow));
  check(data_parallel(loss_of(model), optim::chain(optim::clip_by_global_norm(1.0), optim::adam(0.1)),
                      parallel(replicas)));
  const LossFunction penalised = [loss = loss_of(model)](const Tree& w, const Tree& state, const Batch& b) {
    WithAux aux = loss(w, state, b);
    aux.loss = 0.5 * (aux.loss + l2_penalty(w, 0.1));
    return aux;
  };
  check(data_parallel(penalised, optim::sgd(0.1), parallel(replicas)));
  const LossFunction computed_again = [loss = loss_of(model)](const Tree& w, const Tree& state, const Batch& b) {
    const auto sums = [&](const Tree& v) { return to_tree(loss(v, state, b).loss.terms[0]); };
    return WithAux{from_tree<Weighted>(remat(sums)(w)), state, {}};
  };
  check(data_parallel(computed_again, optim::sgd(0.1), parallel(replicas)));
  return Tree::list(results);
}

Tree several_losses(const Replicas& replicas) {
  const Batch batch = regression_batch(16, 3, float32);
  const auto of_part = [](const char* part) {
    return [part](const Tree& w, const Tree& state, const Batch& b) {
      const Array y = matmul(matmul(b.x, w.at("first").array()), w.at("second").array());
      return WithAux{mean_squared_error(y * (std::string(part) == "first" ? 1.0 : 2.0), b.y, b.weight), state, {}};
    };
  };
  const TrainStep step =
      data_parallel({{.name = "a", .loss = of_part("first"), .optimizers = {{"first", optim::sgd(0.1)}}},
                     {.name = "b", .loss = of_part("second"), .optimizers = {{"second", optim::adam(0.1)}}}},
                    parallel(replicas));
  const Tree weights = Tree::dict({{"first", Tree(ones({3, 7}))}, {"second", Tree(ones({7, 1}))}});
  return to_tree(reduced_once(step, step.init(weights, Tree()), batch));
}

Tree loops_of_microbatches_reduce_behind(const Replicas& replicas) {
  const auto model = nested_layers(Aggregation::none);
  const Batch batch = regression_batch(16, 3, float32);
  std::vector<std::int64_t> counts;
  for (const std::int64_t microbatches : {1, 2}) {
    DataParallelOptions options = parallel(replicas);
    options.microbatches = microbatches;
    const TrainStep step = data_parallel(loss_of(model), optim::sgd(0.1), options);
    const TrainState state = fresh_state(step, model, batch);
    const std::int64_t before = collectives_executed();
    static_cast<void>(step(state, batch));
    counts.push_back(collectives_executed() - before);
  }
  CHECK(counts == std::vector<std::int64_t>{6, 6});  // four variables, the loss's sum and its weight
  return {};
}

/// A psum, or from stage 2 of zero on a psum_scatter where the leaf can be cut; both are of the whole gradient.
std::int64_t reductions_of(const Plan& plan, const Array& leaf) {
  std::int64_t times = 0;
  for (const CollectiveCost& cost : plan.collective_costs) {
    const bool reduces = cost.op == "psum" || cost.op == "psum_scatter";
    if (reduces && cost.bytes == leaf.type().nbytes()) times += cost.times;
  }
  return times;
}

/// Layers in a scan of scans, cut over the batch by every stage of zero, in one part and in several.
Tree partitioned_steps(const Replicas& replicas) {
  const Batch batch = regression_batch(16, 3, float32);
  const auto model = nested_layers(Aggregation::none);
  std::vector<Tree> results;
  for (const int zero : {0, 1, 2, 3}) {
    for (const std::int64_t microbatches : {1, 2}) {
      CAPTURE(zero);
      CAPTURE(microbatches);
      const TrainStep step = model_parallel(loss_of(model), optim::adam(0.01),
                                            {.mesh = Mesh({{"data", replicas.shards}}, cpu_devices(replicas.devices)),
                                             .zero = zero,
                                             .microbatches = microbatches});
      const TrainState state = fresh_state(step, model, batch);
      const Plan plan = step.program(state, batch).plan();
      for (const std::string& path : state.trainable.paths()) {
        CAPTURE(path);
        CHECK(reductions_of(plan, state.trainable.at(path).array()) == 1);
      }
      const std::int64_t before = collectives_executed();
      const TrainState after = step(state, batch).first;
      CHECK(collectives_executed() - before == executions(plan));
      results.push_back(to_tree(gather(to_tree(after))));
    }
  }
  return Tree::list(results);
}

/// Each step of an accumulation reduces its gradients, and the one that updates no more than the others.
Tree accumulated_steps(const Replicas& replicas) {
  const Batch batch = regression_batch(16, 3, float32);
  const auto model = nested_layers(Aggregation::none);
  const TrainStep step = data_parallel(loss_of(model), optim::multi_steps(optim::adam(0.01), 2), parallel(replicas));
  TrainState state = fresh_state(step, model, batch);
  for (int i = 0; i < 4; ++i) state = reduced_once(step, state, batch);
  return to_tree(state);
}

Array axis_sum(const Array& x) { return psum(x, {"batch"}); }

Tree reduced_twice(const Replicas& replicas) {
  const PmapOptions options{.mesh = mesh_of(replicas), .in = {replicated, sharded("batch")}, .out = {replicated}};
  const auto slope = [](const Array& w, const Array& x) {
    return grad([&](const Array& v) { return axis_sum(sum(v * x)); })(w);
  };
  const auto refused = [&](const auto& body, const auto&... parts) {
    expect_error<MeshError>([&] { pmap(body, options)(array(1.0F), ones({8})); }, parts...);
  };
  refused([&](const Array& w, const Array& x) { return axis_sum(slope(w, x)); }, "psum", "invariant");
  refused([&](const Array& w, const Array& x) { return pmean(slope(w, x), {"batch"}); }, "invariant");
  refused([&](const Array& w, const Array& x) { return w * axis_sum(axis_sum(sum(x))); }, "psum", "invariant");
  return {};
}

Tree reduced_and_aggregated(const Replicas& replicas) {
  const Batch batch = column({1, 2, 3, 4, 5, 6, 7, 8});
  for (const Aggregation aggregation : {Aggregation::mean, Aggregation::sum, Aggregation::only_first_replica}) {
    const auto model = weight_model({1}, aggregation);
    const LossFunction loss = [model](const Tree& w, const Tree& state, const Batch& b) {
      auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
      const Weighted part = weighted(squared_rows(y), b.weight);
      return WithAux{Weighted{axis_sum(part.sum), axis_sum(part.weight)}, next, {}};
    };
    const TrainStep step = data_parallel(loss, optim::sgd(0.1), parallel(replicas));
    const auto [trainable, state] = model.init(random::key(0), batch.x);
    expect_error<AggregationError>([&, start = step.init(trainable, state)] { static_cast<void>(step(start, batch)); },
                                   "'w' declares aggregation=" + std::string(name(aggregation)),
                                   "the same on all replicas");
  }
  return {};
}

Tree not_reduced(const Replicas& replicas) {
  const PmapOptions options{.mesh = mesh_of(replicas), .in = {replicated, sharded("batch")}, .out = {replicated}};
  const auto own = [](const Array& w, const Array& x) {
    return grad([&](const Array& v) { return sum(v * x); })(pvary(w, {"batch"}));
  };
  expect_error<MeshError>([&] { pmap(own, options)(array(1.0F), ones({8})); }, "result", "\"batch\" may differ",
                          "psum");
  const auto without_psum = [](const Array& w, const Array& x) {
    return grad([&](const Array& v) { return sum(v * x); })(w);
  };
  expect_error<MeshError>([&] { pmap(without_psum, options)(array(1.0F), ones({8})); }, "psum the loss");
  const auto model = weight_model({1}, Aggregation::none);
  const LossFunction half = [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    const Weighted part = weighted(squared_rows(y), b.weight);
    return WithAux{Weighted{part.sum, axis_sum(part.weight)}, next, {}};
  };
  const Batch batch = column({1, 2, 3, 4, 5, 6, 7, 8});
  const TrainStep step = data_parallel(half, optim::sgd(0.1), parallel(replicas));
  const auto [trainable, state] = model.init(random::key(0), batch.x);
  expect_error<MeshError>([&, start = step.init(trainable, state)] { static_cast<void>(step(start, batch)); }, "[loss]",
                          "the weight is the same on all replicas");
  return {};
}

}  // namespace

std::vector<AcceptanceCase> single_reduction_cases() {
  return {{"each gradient of layers in nested scans is reduced once, in every aggregation and with microbatches",
           nested_scans},
          {"each gradient is reduced once in bfloat16, with penalties, clipping and recomputation", other_modes},
          {"each gradient of several losses is reduced once", several_losses},
          {"each gradient is reduced once where variables lie cut, by every stage of zero and with microbatches",
           partitioned_steps,
           {2, 4, 8}},
          {"each gradient is reduced once a step where steps accumulate", accumulated_steps},
          {"microbatches cost no collective more", loops_of_microbatches_reduce_behind},
          {"reducing what is reduced is an error", reduced_twice},
          {"a reduced loss does not go with an aggregation of its gradients", reduced_and_aggregated},
          {"a gradient that nobody reduces is an error", not_reduced}};
}

}  // namespace lockstep::tests
