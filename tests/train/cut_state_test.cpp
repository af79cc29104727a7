#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/reusable_memory.h>
#include <lockstep/lockstep.h>

#include "engine/trace/array_state.h"
#include "tests/support/expect_error.h"
#include "tests/support/launcher.h"
#include "tests/support/resident_memory.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training.h"

// The state of a partitioned step lies cut between calls, in one process and in several.

using namespace lockstep;
using tests::expect_error;

namespace {

Mesh grid_of(const std::string& names = "cpu:0") { return Mesh({{"data", 2}, {"model", 2}}, devices(names)); }

struct CutWork {
  std::string name;
  Model<Array, Array> model;
  Batch batch;
  LayoutMap layouts;
};

CutWork mlp() {
  const auto network = [](Scope& s, const Array& x) {
    return dense(s["head"], relu(dense(s["in"], x, {.units = 16})), {.units = 4});
  };
  return {"mlp",
          Model<Array, Array>(network),
          {random::normal(random::key(1), {8, 6}), random::randint(random::key(2), {8}, 0, 4), ones({8})},
          {{"in/kernel", sharded("model", 1)}, {"in/bias", sharded("model")}, {"head/kernel", sharded("model")}}};
}

CutWork gpt() {
  const auto network = [](Scope& s, const Array& tokens) {
    return models::gpt(s, tokens, {.vocabulary = 32, .blocks = {.width = 16, .depth = 2, .heads = 4}});
  };
  const auto drawn = [](std::uint64_t seed) { return random::randint(random::key(seed), {4, 8}, 0, 32); };
  return {"gpt",
          Model<Array, Array>(network),
          {drawn(1), drawn(2), ones({4})},
          {{"tokens/embeddings", sharded("model")},
           {".*/dense_0/kernel", sharded("model", 1)},
           {".*/dense_0/bias", sharded("model")},
           {".*/dense_1/kernel", sharded("model")},
           {"head/kernel", sharded("model", 1)}}};
}

TrainStep cut_step(const CutWork& work, int zero, const Mesh& mesh = grid_of()) {
  return model_parallel(tests::loss_of(work.model), optim::adam(1e-2),
                        {.mesh = mesh, .layouts = work.layouts, .zero = zero});
}

TrainState fresh_cut_state(const TrainStep& step, const CutWork& work) {
  return tests::fresh_state(step, work.model, work.batch);
}

std::size_t buffer_bytes(const Array& leaf) { return leaf.state()->buffer->nbytes(); }

/// What a process has of a leaf that lies so: processes take the shards of "data" first.
std::size_t bytes_in_a_process(const Array& leaf) {
  const auto processes = static_cast<std::size_t>(world()->size());
  std::size_t parts = 1;
  const Layout layout = layout_of(leaf);
  for (const auto& [dim, axes] : layout.cuts()) {
    for (const std::string& axis : axes.names()) {
      parts *= axis == "data" ? std::min<std::size_t>(processes, 2) : std::max<std::size_t>(processes / 2, 1);
    }
  }
  return static_cast<std::size_t>(leaf.type().nbytes()) / parts;
}

void check_parts(const TrainState& state) {
  const std::vector<std::string> paths = to_tree(state).paths();
  const std::vector<Array> leaves = to_tree(state).leaves();
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    CAPTURE(paths[i]);
    CHECK(buffer_bytes(leaves[i]) == bytes_in_a_process(leaves[i]));
  }
}

/// Losses and fingerprint of a few steps.
std::string run_cut(const CutWork& work, int zero, const Mesh& mesh = grid_of()) {
  const TrainStep step = cut_step(work, zero, mesh);
  TrainState state = fresh_cut_state(step, work);
  check_parts(state);
  const std::string first = fingerprint(to_tree(state));
  tests::Trained done = tests::train(step, std::move(state), 3, [&](int) { return work.batch; });
  check_parts(done.state);
  CHECK(step.traces() == 1);
  std::string text = work.name + " zero " + std::to_string(zero) + ":";
  for (const double loss : done.losses) text += " " + std::to_string(loss);
  return text + " " + first + " " + fingerprint(to_tree(done.state)) + ".";
}

Array leaf(const TrainState& state, const std::string& path) { return to_tree(state).at(path).array(); }

}  // namespace

TEST_CASE("init and step give a state that lies as the layouts say, updated where it lies") {
  const CutWork work = mlp();
  const Layout both({{0, "data"}, {1, "model"}});
  struct Case {
    int zero;
    Layout kernel, bias, kernel_slot, head_bias, head_bias_slot;
  };
  const std::vector<Case> cases = {
      {0, sharded("model", 1), sharded("model"), sharded("model", 1), replicated, replicated},
      {1, sharded("model", 1), sharded("model"), both, replicated, sharded("data")},
      {2, sharded("model", 1), sharded("model"), both, replicated, sharded("data")},
      {3, both, sharded({"model", "data"}), both, sharded("data"), sharded("data")}};
  for (const Case& c : cases) {
    CAPTURE(c.zero);
    const TrainStep step = cut_step(work, c.zero);
    TrainState state = fresh_cut_state(step, work);
    const auto check_lies = [&] {
      CHECK(layout_of(leaf(state, "trainable/in/kernel")) == c.kernel);
      CHECK(layout_of(leaf(state, "trainable/in/bias")) == c.bias);
      CHECK(layout_of(leaf(state, "trainable/head/bias")) == c.head_bias);
      int slots = 0;
      for (const std::string& path : to_tree(state).paths()) {
        if (!path.starts_with("optimizer")) continue;
        if (path.ends_with("/in/kernel")) {
          ++slots;
          CHECK(layout_of(leaf(state, path)) == c.kernel_slot);
        }
        if (path.ends_with("/head/bias")) CHECK(layout_of(leaf(state, path)) == c.head_bias_slot);
      }
      CHECK(slots == 2);
      CHECK_FALSE(is_cut(state.step));
    };
    check_lies();
    state = step(std::move(state), work.batch).first;
    check_lies();
    std::vector<const backend::Buffer*> before, after;
    for (const Array& x : to_tree(state).leaves()) before.push_back(x.state()->buffer.get());
    state = step(std::move(state), work.batch).first;
    for (const Array& x : to_tree(state).leaves()) after.push_back(x.state()->buffer.get());
    std::ranges::sort(before);  // leaves of one type may change places
    std::ranges::sort(after);
    CHECK(before == after);
    CHECK(step.traces() == 1);
    expect_error<MeshError>([&] { leaf(state, "trainable/in/kernel").to_vector<float>(); }, "lies cut", "gather(x)");
    expect_error<MeshError>(
        [&] {
          static_cast<void>(work.model.stateless_call(state.trainable, state.non_trainable, work.batch.x, false));
        },
        "lies cut", "gather(x)");
    CHECK(work.model.stateless_call(gather(state.trainable), state.non_trainable, work.batch.x, false).first.dim(1) ==
          4);
    const EvaluateStep evaluate(tests::loss_of(work.model), {.devices = devices("cpu:0"), .shards = 1});
    expect_error<MeshError>([&] { static_cast<void>(evaluate(state.trainable, state.non_trainable, work.batch)); },
                            "lies cut", "gather(x)");
    CHECK(evaluate(gather(state.trainable), state.non_trainable, work.batch).contains("loss"));
    CHECK_NOTHROW(lint(step, state, to_tree(work.batch)));
  }
}

TEST_CASE("a state that is whole, or cut as another step has it, is cut on entry") {
  const CutWork work = mlp();
  const auto after = [&](const TrainStep& step, TrainState state) {
    const std::string print = fingerprint(to_tree(step(std::move(state), work.batch).first));
    return print;
  };
  for (const int zero : {0, 3}) {
    const TrainStep step = cut_step(work, zero);
    const std::string expected = after(step, fresh_cut_state(step, work));
    const auto whole = from_tree<TrainState>(gather(to_tree(fresh_cut_state(step, work))));
    CHECK_FALSE(is_cut(leaf(whole, "trainable/in/kernel")));
    CHECK(after(step, whole) == expected);
    for (const int other : {0, 1, 3}) {
      CAPTURE(other);
      const TrainState given = fresh_cut_state(cut_step(work, other), work);
      CHECK(after(step, given) == expected);
      const TrainState next = step(given, work.batch).first;
      CHECK(layout_of(leaf(next, "trainable/in/kernel")) ==
            layout_of(leaf(fresh_cut_state(step, work), "trainable/in/kernel")));
    }
    // Over another mesh, too.
    const Tree elsewhere =
        reshard(Tree(leaf(whole, "trainable/in/kernel")), Mesh({{"rows", 2}}, {Device{}}), sharded("rows"));
    TrainState given = whole;
    given.trainable = given.trainable.with("in/kernel", elsewhere);
    CHECK(after(step, given) == expected);
  }
}

TEST_CASE("parameters that lie cut already are those of init; slots without parameters are no error") {
  const CutWork work = mlp();
  const TrainStep step = cut_step(work, 3);
  auto [trainable, rest] = work.model.init(random::key(3), work.batch.x);
  const Tree kernel = Tree(reshard(trainable.at("in/kernel").array(), grid_of(), Layout({{0, "data"}, {1, "model"}})));
  const TrainState cut = step.init(trainable.with("in/kernel", kernel), rest);
  CHECK(leaf(cut, "trainable/in/kernel").state()->buffer == kernel.array().state()->buffer);
  CHECK(fingerprint(to_tree(cut)) == fingerprint(to_tree(step.init(trainable, rest))));
  const TrainStep plain = model_parallel(tests::loss_of(work.model), optim::sgd(0.1), {.mesh = grid_of(), .zero = 3});
  const TrainState next = plain(fresh_cut_state(plain, work), work.batch).first;
  CHECK(layout_of(leaf(next, "trainable/in/kernel")) == sharded("data"));
}

TEST_CASE("partitioned keeps results cut where it is asked to") {
  const auto f = [](const Array& w, const Array& x) { return w - matmul(transpose(x), x) * 0.125; };
  const PartitionOptions options{.mesh = grid_of("cpu:0-1"),
                                 .in = {sharded("model"), sharded("data")},
                                 .out = {sharded("model")},
                                 .keep_cut = true};
  const Array w = random::normal(random::key(1), {4, 4}), x = random::normal(random::key(2), {8, 4});
  for (const bool is_jitted : {false, true}) {
    const auto step = [&](const Array& v) {
      return is_jitted ? jit(partitioned(f, options))(v, x) : partitioned(f, options)(v, x);
    };
    const Array once = step(w);
    CHECK(layout_of(once) == sharded("model"));
    CHECK(mesh_of(once) == options.mesh);
    CHECK(allclose(gather(step(once)), f(f(w, x), x), 1e-5).item<bool>());
    expect_error<MeshError>([&] { step(reshard(w, options.mesh, sharded("data"))); }, "lies cut", "reshard");
  }
  PartitionOptions as_it_comes = options;
  as_it_comes.out = {};
  CHECK(is_cut(partitioned(f, as_it_comes)(w, x)));
}

TEST_CASE("axes of one shard cut nothing: what lies cut along them is taken, and results are whole") {
  const Mesh line({{"data", 4}, {"model", 1}}, {Device{}});
  const auto twice = [](const Array& x) { return x * 2.0; };
  const Array x = random::normal(random::key(1), {8, 4});
  for (const Layout& layout : {sharded("model"), sharded({"data", "model"})}) {
    const auto f = jit(partitioned(twice, {.mesh = line, .in = {layout}, .out = {layout}, .keep_cut = true}));
    const Array y = f(reshard(x, line, layout));
    CHECK(layout_of(y) == (layout == sharded("model") ? replicated : sharded("data")));
    CHECK(fingerprint(Tree(f(y))) == fingerprint(Tree(x * 4.0)));
  }
  const CutWork work = mlp();
  const TrainStep step = cut_step(work, 3, line);
  const TrainState state = step(fresh_cut_state(step, work), work.batch).first;
  CHECK(layout_of(leaf(state, "trainable/in/bias")) == sharded("data"));
  CHECK(layout_of(leaf(state, "trainable/head/kernel")) == sharded("data"));
}

TEST_CASE("what each launched process trains with a state that lies cut" * doctest::skip()) {
  for (const CutWork& work : {mlp(), gpt()}) {
    for (const int zero : {0, 1, 2, 3}) std::printf("%s\n", run_cut(work, zero).c_str());
  }
  for (const int zero : {0, 3}) {
    const TrainStep taking = cut_step(mlp(), zero);
    const auto after = [&](const TrainState& given) { return fingerprint(to_tree(taking(given, mlp().batch).first)); };
    const TrainState own = fresh_cut_state(taking, mlp());
    CHECK(after(from_tree<TrainState>(gather(to_tree(own)))) == after(own));
    CHECK(after(fresh_cut_state(cut_step(mlp(), 3 - zero), mlp())) == after(own));
  }
  // Replicas are compared by how their leaves lie. What is saved here one process restores.
  const CutWork work = mlp();
  const TrainStep step = cut_step(work, 3);
  TrainState state = fresh_cut_state(step, work);
  state = step(std::move(state), work.batch).first;
  check_replicas("the state", to_tree(state));
  checkpoint::save(std::filesystem::path(std::getenv("LOCKSTEP_TEST_FOLDER")) / std::to_string(world()->size()),
                   to_tree(state), {});
  std::printf("saved %s.\n", fingerprint(to_tree(state)).c_str());
  std::printf("next %s.\n", fingerprint(to_tree(step(std::move(state), work.batch).first)).c_str());
  world()->barrier();
}

TEST_CASE("mlp and gpt over 2 and 4 processes: losses, bits and checkpoints of one, and each has its blocks alone") {
  std::vector<std::string> expected;
  for (const CutWork& work : {mlp(), gpt()}) {
    for (const int zero : {0, 1, 2, 3}) {
      expected.push_back(run_cut(work, zero));
      CHECK(run_cut(work, zero, grid_of("cpu:0-1")) == expected.back());
    }
  }
  if (!tests::can_launch()) return tests::skip(tests::no_launcher());
  const tests::TemporaryFolder folder;
  for (const int processes : {2, 4}) {
    const std::string output =
        tests::launched(processes, "what each launched process trains with a state that lies cut",
                        "LOCKSTEP_TEST_FOLDER='" + folder.path().string() + "' ");
    CAPTURE(output);
    const auto times = static_cast<std::size_t>(processes);
    for (const std::string& line : expected) CHECK(tests::count(output, line) == times);
    CHECK(tests::count(output, "FAILURE") == 0);

    const std::filesystem::path saved = folder.path() / std::to_string(processes);
    const CutWork work = mlp();
    for (const int zero : {0, 3}) {
      const TrainStep step = cut_step(work, zero);
      const TrainState like = fresh_cut_state(step, work);
      auto state = from_tree<TrainState>(checkpoint::restore(saved, to_tree(like)));
      CHECK(layout_of(leaf(state, "trainable/in/kernel")) == layout_of(leaf(like, "trainable/in/kernel")));
      CHECK(tests::count(output, "saved " + fingerprint(to_tree(state)) + ".") == times);
      state = step(std::move(state), work.batch).first;
      if (zero == 3) CHECK(tests::count(output, "next " + fingerprint(to_tree(state)) + ".") == times);
    }
  }
}

namespace {

/// Four kernels of 16 MiB.
CutWork wide() {
  const auto network = [](Scope& s, const Array& x) {
    Array h = x;
    for (const char* name : {"a", "b", "c", "d"}) h = tanh(dense(s[name], h, {.units = 2048, .use_bias = false}));
    return h;
  };
  return {"wide",
          Model<Array, Array>(network),
          {random::normal(random::key(1), {8, 2048}), random::normal(random::key(2), {8, 2048}), ones({8})},
          {}};
}

/// Of this process, without what it keeps for its next use.
std::size_t held_bytes() {
  backend::release_reusable_memory();
  return tests::resident_bytes();
}

double mebibytes_of(std::size_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

}  // namespace

TEST_CASE("what each launched process has resident of a state of 192 MiB" * doctest::skip()) {
  const int zero = std::atoi(std::getenv("LOCKSTEP_TEST_ZERO"));
  const CutWork work = wide();
  const TrainStep step = cut_step(work, zero, Mesh({{"data", 4}}, {Device{}}));
  static_cast<void>(
      step(fresh_cut_state(step, work), work.batch));  // what the program itself takes is no part of the measure
  const std::size_t before = held_bytes();
  TrainState state = fresh_cut_state(step, work);
  for (int i = 0; i < 3; ++i) state = step(std::move(state), work.batch).first;
  const std::size_t resident = held_bytes() - before;
  std::size_t parts = 0;
  for (const Array& x : to_tree(state).leaves()) parts += buffer_bytes(x);
  CHECK(mebibytes_of(parts) == doctest::Approx(zero == 3 ? 48 : 192).epsilon(1e-3));
  CHECK(mebibytes_of(resident) == doctest::Approx(mebibytes_of(parts)).epsilon(0.1));
  std::printf("zero %d was measured: %.1f MiB of %.1f.\n", zero, mebibytes_of(resident), mebibytes_of(parts));
  world()->barrier();
}

TEST_CASE("64 MiB of parameters with Adam in 4 processes: 192 MiB resident in each without zero, 48 with stage 3") {
  if (!tests::can_launch()) return tests::skip(tests::no_launcher());
  for (const std::string zero : {"0", "3"}) {
    const std::string output = tests::launched(4, "what each launched process has resident of a state of 192 MiB",
                                               "LOCKSTEP_TEST_ZERO=" + zero + " ");
    CAPTURE(output);
    CHECK(tests::count(output, "zero " + zero + " was measured") == 4);
    CHECK(tests::count(output, "FAILURE") == 0);
  }
}
