#include <string>
#include <type_traits>
#include <utility>

#include <doctest/doctest.h>

#include <lockstep/processes.h>

#include "tests/acceptance/cases.h"
#include "tests/acceptance/weight_steps.h"
#include "tests/support/expect_error.h"

// Meshes that cannot be, which shards a process runs, and processes that were started differently.
namespace lockstep::tests {
namespace {

template <class... Arguments>
constexpr bool makes_a_mesh = std::is_constructible_v<Mesh, Arguments...>;

/// Names, sizes and devices apart could be of different numbers; an axis has its own size.
static_assert(!makes_a_mesh<std::vector<std::string>, std::vector<std::int64_t>, std::vector<Device>>);
static_assert(makes_a_mesh<std::vector<MeshAxis>, std::vector<Device>>);

Tree meshes_that_cannot_be(const Replicas&) {
  const auto refused = [](const std::vector<MeshAxis>& axes, const std::vector<Device>& on) {
    return error_text<MeshError>([&] { static_cast<void>(Mesh(axes, on)); });
  };
  const std::vector<Device> two = cpu_devices(2);
  const std::string no_axes = refused({}, two), no_name = refused({{"", 2}}, two),
                    no_devices = refused({{"batch", 2}}, {}), no_size = refused({{"batch", 0}}, two),
                    other_product = refused({{"batch", 4}, {"model", 2}}, cpu_devices(3)),
                    fewer_shards = refused({{"batch", 2}}, cpu_devices(4));
  CHECK_MESSAGE(contains(no_axes, "no axes given; write at least one"), no_axes);
  CHECK_MESSAGE(contains(no_name, "axis 0 has an empty name"), no_name);
  CHECK_MESSAGE(contains(no_devices, "no devices given"), no_devices);
  CHECK_MESSAGE(contains(no_size, "axis \"batch\" has size 0"), no_size);
  CHECK_MESSAGE(contains(other_product, "3 devices do not divide the 8 shards of batch=4, model=2"), other_product);
  CHECK_MESSAGE(contains(fewer_shards, "4 devices do not divide the 2 shards of batch=2"), fewer_shards);
  return {};
}

/// Process p of P has shards pV/P to (p+1)V/P - 1, and no others.
Tree shards_of_a_process(const Replicas& replicas) {
  const auto number = [](const Array& row) { return row * 0 + axis_index("batch"); };
  const Layout rows = sharded("batch");
  const Array numbers = pmap(number, {.mesh = mesh_of(replicas), .in = {rows}, .out = {rows}, .keep_cut = true})(
      zeros({replicas.shards}, int32));
  const std::int64_t processes = world()->size(), own = replicas.shards / processes;
  const std::vector<ArrayBlock> blocks = local_blocks(numbers);
  REQUIRE(std::ssize(blocks) == own);
  for (std::int64_t i = 0; i < own; ++i) {
    const auto& [start, values, owner] = blocks[static_cast<std::size_t>(i)];
    CHECK(start == Shape{world()->rank() * own + i});
    CHECK(values.item<std::int32_t>() == world()->rank() * own + i);
    CHECK(owner == world()->rank());
  }
  return Tree(gather(numbers));
}

/// Shards are what a program means: processes share them, and none is run twice so that processes have something to do.
Tree shards_that_processes_cannot_share(const Replicas& replicas) {
  const int processes = world()->size();
  const auto mapped = [](std::int64_t shards, int devices) {
    const auto twice = [](const Array& row) { return row * 2; };
    const Replicas of{shards, devices};
    return pmap(twice, {.mesh = mesh_of(of), .in = {sharded("batch")}, .out = {sharded("batch")}})(ones({24}));
  };
  if (processes > 1) {
    const std::string text = error_text<MeshError>([&] { static_cast<void>(mapped(processes / 2, 1)); });
    CHECK_MESSAGE(contains(text, std::to_string(processes) + " process(es) with 1 device(s) each do not divide " +
                                     std::to_string(processes / 2) + " shards evenly"),
                  text);
  }
  const std::string text = error_text<MeshError>([&] { static_cast<void>(mapped(processes, 2)); });
  CHECK_MESSAGE(contains(text, "2 device"), text);
  CHECK_MESSAGE(contains(text, "divide"), text);
  expect_error<MeshError>([&] { static_cast<void>(mapped(3, 1)); }, "size 3", "powers of two");
  return Tree(mapped(replicas.shards, replicas.devices));  // such an error ends nothing
}

Tree other_seeds(const Replicas& replicas) {
  const Model<Array, Array> model([](const Scope& scope, const Array& x) {
    return x * scope["layer"].trainable("w", {.shape = {1}, .initializer = initializers::normal(1.0)});
  });
  const Batch batch = column({1, 2, 3, 4, 5, 6, 7, 8});
  const TrainStep step = data_parallel(loss_of_rows(model, squared_rows), optim::sgd(0.1), parallel(replicas));
  const auto started = [&](std::uint64_t seed) {
    auto [trainable, state] = model.init(random::key(seed), batch.x);
    return step.init(std::move(trainable), std::move(state));
  };
  const int processes = world()->size();
  const std::uint64_t before = world()->collectives();
  const TrainState start = started(static_cast<std::uint64_t>(world()->rank()));
  if (processes == 1) return to_tree(step(start, batch).first);
  const std::string text = error_text<CommunicatorError>([&] { static_cast<void>(step(start, batch)); });
  CHECK_MESSAGE(contains(text, "the value of argument 0/trainable/layer/w is 'bytes with the hash "), text);
  CHECK_MESSAGE(contains(text, "in process 0, 'bytes with the hash "), text);
  CHECK_MESSAGE(contains(text, "start all processes with the same one, or they would not train one model"), text);
  CHECK(world()->collectives() - before <= 3);  // the comparison's: no step was made
  expect_error<CommunicatorError>([&] { static_cast<void>(step(started(0), batch)); }, "failed before");
  return {};
}

/// A temperature beside the rows that is another one in each process.
Tree other_scalars(const Replicas& replicas) {
  const auto loss = [](const Tree& w, const Tree& state, const Tree& b) {
    const Array y = squeeze(b.at("x").array() * w.at("v").array(), {1}) * b.at("temperature").array();
    return WithAux{weighted(square(y), b.at("weight").array()), state, {}};
  };
  const auto batch_of = [](float temperature) {
    return Tree::dict(
        {{"temperature", Tree(array(temperature))}, {"x", Tree(ones({8, 1}))}, {"weight", Tree(ones({8}))}});
  };
  const TrainStep step = data_parallel(loss, optim::sgd(0.5), parallel(replicas));
  const TrainState start = step.init(Tree::dict({{"v", Tree(ones({1}))}}), Tree());
  const Tree batch = batch_of(static_cast<float>(world()->rank()));
  if (world()->size() == 1) return to_tree(step(start, batch).first);
  const std::string text = error_text<CommunicatorError>([&] { static_cast<void>(step(start, batch)); });
  CHECK_MESSAGE(contains(text, "the value of argument 1/temperature is 'bytes with the hash "), text);
  return {};
}

}  // namespace

std::vector<AcceptanceCase> process_cases() {
  return {{"T70: a mesh without axes or names, of other sizes or another product is an error each",
           meshes_that_cannot_be,
           {4}},
          {"T75: each process runs its part of the shards, in order", shards_of_a_process, {2, 4, 8}},
          {"T75: shards that the processes cannot share are an error that says divide",
           shards_that_processes_cannot_share,
           {4, 8}},
          {"T49: processes with other seeds end with an error before the first step", other_seeds, {1, 2, 4, 8}, true},
          {"processes with other scalars beside the rows end with an error before the first step",
           other_scalars,
           {1, 2, 4, 8},
           true}};
}

}  // namespace lockstep::tests
