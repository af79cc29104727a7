#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "tests/support/replicas.h"

// A long run keeps its memory, its threads and its bits.

using namespace lockstep;

namespace {

constexpr int steps = 20000;

long resident_pages() {
  long size = 0;
  long resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident;
}

long count_entries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator{});
}

Array network(Scope& scope, const Array& x) {
  const Array h = relu(batch_norm(scope["norm"], dense(scope["first"], x, {.units = 16, .use_bias = false})));
  return dense(scope["second"], dropout(scope["drop"], h, 0.2), {.units = 3});
}

}  // namespace

TEST_CASE("20,000 steps: resident memory, files and threads do not grow, and half of it twice gives the same bits") {
  const Model model(network);
  const auto loss = [&](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    return WithAux{softmax_cross_entropy(y, b.y, b.weight), next, {}};
  };
  const TrainStep step = data_parallel(model, loss, optim::adamw(1e-3), tests::parallel({4, 2}));
  const Array x = random::normal(random::key(1), {16, 8});
  const Batch batch{x, convert(argmax(slice_in_dim(x, 0, 3, 1), 1), int32), ones({16})};
  auto [trainable, non_trainable] = model.init(random::key(0), x);
  const auto run = [&](TrainState state, int count) {
    for (int i = 0; i < count; ++i) state = step(std::move(state), batch).first;
    return state;
  };
  TrainState state = run(step.init(trainable, non_trainable), 500);
  const long pages = resident_pages();
  const long files = count_entries("/proc/self/fd");
  const long threads = count_entries("/proc/self/task");
  state = run(std::move(state), steps - 500);
  CHECK(resident_pages() <= pages + pages / 100);
  CHECK(count_entries("/proc/self/fd") == files);
  CHECK(count_entries("/proc/self/task") == threads);
  const std::string whole = fingerprint(to_tree(std::move(state)));
  const std::string halves = fingerprint(to_tree(run(run(step.init(trainable, non_trainable), steps / 2), steps / 2)));
  CHECK(whole == halves);
}
