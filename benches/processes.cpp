#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>

#include <lockstep/lockstep.h>
#include <lockstep/profile.h>

#include "timing.h"
#include "workloads.h"

// What several processes take: under mpirun, the training step of a workload, or a sum over one shard of each. Alone, the
// same with the rows that one process would have, which is what a step costs without its exchange. `scaling.py` starts it
// and compares what it says with what it foretells.
namespace lockstep::benches {

namespace {

/// How long to call, and what of the calls' times is said.
struct Timing {
  double seconds = 4;
  bool mean = false;   ///< Where processes take turns, medians leave out the turns of others.
  bool turns = false;  ///< Between calls the process sleeps: others that share its core run, as where they meet.
};

struct StepArguments {
  std::string workload = "gpt";
  std::int64_t shards = 8;
  std::int64_t rows = 0;
  int devices = 1;
  Timing timing;
  bool profile = false;
};

struct GptArguments {
  std::int64_t vocabulary = 512, width = 256, depth = 4, heads = 4, rows = 1, tokens = 128;
};

/// What the calls took of the machine, of all processes together.
struct Use {
  double cpu_seconds = 0;
  double sleeps = 0;                   ///< Times that one slept.
  double turns = 0;                    ///< Times that its core was taken, or given up for another's turn.
  double meetings = 0;                 ///< Of each.
  std::vector<double> quantiles = {};  ///< Of the calls' seconds in this process, a twentieth apart.
};

Use use_of_this_process() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return {seconds(used.ru_utime) + seconds(used.ru_stime), static_cast<double>(used.ru_nvcsw),
          static_cast<double>(used.ru_nivcsw), static_cast<double>(world()->collectives())};
}

/// Of all processes, for each of the calls since.
Use use_since(const Use& before, std::int64_t calls) {
  const Use now = use_of_this_process();
  const Use own{now.cpu_seconds - before.cpu_seconds, now.sleeps - before.sleeps, now.turns - before.turns};
  const std::array<double, 3> given = {own.cpu_seconds, own.sleeps, own.turns};
  std::vector<std::array<double, 3>> all(static_cast<std::size_t>(world()->size()));
  world()->all_gather(std::as_bytes(std::span(given)), std::as_writable_bytes(std::span(all)));
  const auto n = static_cast<double>(calls);
  Use sum{.meetings = (now.meetings - before.meetings) / n};
  for (const auto& [cpu_seconds, sleeps, turns] : all) {
    sum.cpu_seconds += cpu_seconds / n;
    sum.sleeps += sleeps / n;
    sum.turns += turns / n;
  }
  return sum;
}

/// Calls `step` for that long, every process equally often, and returns the median, or mean, of what a call took.
double seconds_per_step(const std::function<void()>& step, const Timing& timing, Use* use = nullptr) {
  using Clock = std::chrono::steady_clock;
  const auto timed = [&] {
    if (timing.turns) std::this_thread::sleep_for(std::chrono::microseconds(50));
    const auto start = Clock::now();
    step();
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  double first = 0;
  for (int i = 0; i < 5; ++i) first = timed();
  // How often is said by the first process: calls that communicate must be as many on all.
  std::int64_t calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(timing.seconds / first), 15, 20000);
  world()->broadcast(std::as_writable_bytes(std::span(&calls, 1)), 0);
  std::vector<double> samples;
  const Use before = use_of_this_process();
  for (std::int64_t i = 0; i < calls; ++i) samples.push_back(timed());
  if (use != nullptr) {
    *use = use_since(before, calls);
    std::ranges::sort(samples);
    for (std::size_t i = 1; i < 20; ++i) use->quantiles.push_back(samples[i * samples.size() / 20]);
  }
  if (timing.mean) return std::reduce(samples.begin(), samples.end()) / static_cast<double>(samples.size());
  return median(std::move(samples));
}

void say(const std::string& line) {
  if (world()->rank() == 0) fmt::print("{}\n", line);
}

std::int64_t parameters(const Tree& weights) {
  std::int64_t count = 0;
  for (const Array& leaf : weights.leaves()) count += leaf.size();
  return count;
}

/// One line of JSON.
std::string text(const Plan& plan, std::int64_t parameters, double seconds, const Use& use = {}) {
  std::string collectives;
  for (const CollectiveCost& cost : plan.collective_costs) {
    collectives += fmt::format("{}[{}, {}]", collectives.empty() ? "" : ", ", cost.bytes, cost.times);
  }
  return fmt::format(
      R"({{"seconds": {:.9f}, "flops": {:.9g}, "parameters": {}, "collectives": [{}], "shard_bytes": {}, )"
      R"("scratch_bytes": {}, "arena_bytes": {}, "cpu_seconds": {:.9f}, "sleeps": {:.2f}, "turns": {:.2f}, "meetings": {:.2f}, "quantiles": [{:.6g}]}})",
      seconds, plan.flops, parameters, collectives, plan.shard_bytes, plan.scratch_bytes, plan.arena_bytes,
      use.cpu_seconds, use.sleeps, use.turns, use.meetings, fmt::join(use.quantiles, ", "));
}

/// A workload's step, with what goes into it.
struct Work {
  TrainStep step;
  TrainState state;
  Batch batch;
  std::int64_t parameters = 0;
};

Work work_of(const StepArguments& a, const std::shared_ptr<Profile>& profile) {
  Workload workload = find_workload(a.workload);
  if (a.rows > 0) workload.x.shape = workload.x.shape.with(0, a.rows);
  const TrainStep step = train_step(workload, {.devices = devices("cpu:0-" + std::to_string(a.devices - 1)),
                                               .shards = a.shards,
                                               .debug = {.profile = profile}});
  const Tree drawn = draw_batches(workload, 1, 1);
  const Batch batch{drawn.at("x").array()[0], drawn.at("y").array()[0], ones({workload.rows()})};
  auto [weights, state] = workload.model.init(random::key(0), workload.x);
  return {step, step.init(weights, state), batch, parameters(weights)};
}

double seconds_of_a_step(Work& work, const Timing& timing, Use* use = nullptr) {
  return seconds_per_step(
      [&] {
        auto [next, logs] = work.step(std::move(work.state), work.batch);
        work.state = std::move(next);
        logs.at("loss").item<float>();
      },
      timing, use);
}

void time_step(const StepArguments& a) {
  const auto profile = a.profile ? std::make_shared<Profile>(ProfileOptions{.skip = 100, .calls = 100}) : nullptr;
  Work work = work_of(a, profile);
  const Plan plan = work.step.program(work.state, work.batch).plan();
  Use use;
  const double seconds = seconds_of_a_step(work, a.timing, &use);
  say(text(plan, work.parameters, seconds, use));
  if (profile == nullptr || world()->rank() != 0) return;
  for (const ProfileRow& row : profile->by_op()) {
    fmt::print(stderr, "{:32} {:8} runs {:10.2f} us a step\n", row.name, row.runs,
               1e6 * row.seconds / static_cast<double>(profile->recorded()));
  }
}

/// What processes compare before a program's first call: a hash of its text, one of each argument, and one message.
void time_comparison(const StepArguments& a) {
  Work work = work_of(a, nullptr);
  const Function program = work.step.program(work.state, work.batch);
  const Tree arguments = Tree::list({to_tree(work.state), to_tree(work.batch)});
  const Timing eighth{.seconds = a.timing.seconds / 8};
  const double printed = seconds_per_step([&] { static_cast<void>(program.to_string()); }, eighth);
  const double compared = seconds_per_step([&] { check_replicas("the arguments", arguments); }, eighth);
  const double step = seconds_of_a_step(work, a.timing);
  say(fmt::format(R"({{"text_seconds": {:.6f}, "comparison_seconds": {:.6f}, "step_seconds": {:.6f}, )"
                  R"("share_of_100_steps": {:.6f}}})",
                  printed, compared, step, (printed + compared) / (100 * step)));
}

/// What a gpt of other sizes needs, without running it.
void plan_gpt(const GptArguments& a) {
  const models::GptOptions options{.vocabulary = a.vocabulary,
                                   .blocks = {.width = a.width, .depth = a.depth, .heads = a.heads}};
  Workload workload = find_workload("gpt");
  workload.model = Model([options](Scope& s, const Array& x) { return models::gpt(s, x, options); });
  workload.x.shape = {a.rows, a.tokens};
  workload.labels = a.vocabulary;
  const TrainStep step = train_step(workload, {.devices = devices("cpu:0-0"), .shards = 1});
  const Tree drawn = draw_batches(workload, 1, 1);
  const Batch batch{drawn.at("x").array()[0], drawn.at("y").array()[0], ones({a.rows})};
  auto [weights, state] = workload.model.init(random::key(0), workload.x);
  say(text(step.program(step.init(weights, state), batch).plan(), parameters(weights), 0));
}

/// What a step does between two sums: products over memory of its own, more than a core's second cache keeps.
class Products {
 public:
  void walk(std::int64_t rounds) {
    for (std::int64_t i = 0; i < rounds; ++i) {
      for (float& value : values_) value = value * 0.999F + 1e-3F;
    }
  }

 private:
  static constexpr std::size_t bytes = std::size_t{2} << 20;
  std::vector<float> values_ = std::vector<float>(bytes / sizeof(float), 1.0F);
};

/// A psum of one shard a process, by itself.
std::function<void()> sum_alone(std::int64_t elements) {
  const int processes = world()->size();
  const Mesh mesh({{"batch", processes}}, devices("cpu:0-0"));
  const auto sum = jit([mesh](const Array& a) {
    return pmap([](const Array& block) { return psum(block, {"batch"}); },
                {.mesh = mesh, .in = {sharded("batch")}, .out = {replicated}})(a);
  });
  return [sum, x = ones({processes, elements})] { sum(x); };
}

/// What a step does around a sum: products of a few rows give a gradient, and the sum of all moves a weight.
std::function<void()> sum_of_gradients(std::int64_t elements) {
  constexpr std::int64_t columns = 256, rows = 8;
  const std::int64_t shards = 2 * world()->size();  // a process has several, as in a step
  const Mesh mesh({{"batch", shards}}, devices("cpu:0-0"));
  const auto step = jit([mesh](const Array& w, const Array& x, const Array& y) {
    const auto moved = [](const Array& v, const Array& a, const Array& b) {
      return v - 1e-3 * psum(matmul(transpose(a), b), {"batch"});
    };
    return pmap(moved, {.mesh = mesh, .in = {replicated, sharded("batch"), sharded("batch")}, .out = {replicated}})(
        w, x, y);
  });
  const auto w = std::make_shared<Array>(zeros({elements / columns, columns}));
  return [step, w, x = ones({shards * rows, elements / columns}), y = ones({shards * rows, columns})] {
    *w = step(std::move(*w), x, y);
  };
}

struct ExchangeArguments {
  Timing timing{.seconds = 0.5};
  std::int64_t only = 0;
  std::int64_t behind = 0;
  bool of_gradients = false;
};

/// Sums of several sizes, with what stands before each. One process alone has the same program and nobody to exchange with.
void time_exchanges(const ExchangeArguments& a) {
  Products products;
  const std::int64_t most = std::int64_t{a.of_gradients ? 16 : 64} << 20;
  for (std::int64_t bytes = 1024; bytes <= most; bytes *= 4) {
    if (a.only > 0 && bytes != a.only) continue;
    const std::function<void()> sum = a.of_gradients ? sum_of_gradients(bytes / 4) : sum_alone(bytes / 4);
    const auto both = [&] {
      products.walk(a.behind);
      sum();
    };
    Use use;
    std::vector<double> samples, processor;
    for (int i = 0; i < 9; ++i) {
      samples.push_back(seconds_per_step(both, {a.timing.seconds / 9, a.timing.mean, a.timing.turns}, &use));
      processor.push_back(use.cpu_seconds);
    }
    say(fmt::format(R"({{"bytes": {}, "seconds": {:.9f}, "cpu_seconds": {:.9f}, "meetings": {:.2f}, )"
                    R"("quantiles": [{:.6g}]}})",
                    bytes, median(samples), median(processor), use.meetings, fmt::join(use.quantiles, ", ")));
  }
}

int run(int argc, char** argv) {
  CLI::App app("Times what several processes do together, and one of them alone", "bench_processes");
  app.require_subcommand(1);
  StepArguments a;
  ExchangeArguments e;
  CLI::App* const step = app.add_subcommand("step", "A training step");
  step->add_option("workload", a.workload)->required();
  step->add_option("--shards", a.shards)->capture_default_str();
  step->add_option("--rows", a.rows, "Of a batch; 0: those of the workload")->capture_default_str();
  step->add_option("--devices", a.devices, "Of a process")->capture_default_str();
  step->add_option("--seconds", a.timing.seconds)->capture_default_str();
  step->add_flag("--mean", a.timing.mean, "In place of the median");
  step->add_flag("--turns", a.timing.turns, "Sleeps between steps, so that processes take turns");
  step->add_flag("--profile", a.profile, "What the ops of 100 steps took, on standard error");
  CLI::App* const comparison = app.add_subcommand("comparison", "What is compared before a step's first call");
  comparison->add_option("workload", a.workload)->required();
  comparison->add_option("--shards", a.shards)->capture_default_str();
  comparison->add_option("--seconds", a.timing.seconds)->capture_default_str();
  CLI::App* const exchange = app.add_subcommand("exchange", "A sum over one shard of each process, by size");
  exchange->add_option("--seconds", e.timing.seconds, "For each size")->capture_default_str();
  exchange->add_flag("--mean", e.timing.mean, "In place of the median");
  exchange->add_flag("--turns", e.timing.turns, "Sleeps between sums, so that processes take turns");
  exchange->add_option("--bytes", e.only, "This size alone: 1024 times a power of four; 0: all")->capture_default_str();
  exchange->add_option("--behind", e.behind, "Walks over 2 MiB of own memory before each sum")->capture_default_str();
  exchange->add_flag("--of-gradients", e.of_gradients, "Of products, whose sum moves a weight");
  GptArguments g;
  CLI::App* const plan = app.add_subcommand("plan", "Memory and operations of a gpt's step, from its plan");
  for (const auto& [name, value] :
       std::initializer_list<std::pair<const char*, std::int64_t*>>{{"--vocabulary", &g.vocabulary},
                                                                    {"--width", &g.width},
                                                                    {"--depth", &g.depth},
                                                                    {"--heads", &g.heads},
                                                                    {"--rows", &g.rows},
                                                                    {"--tokens", &g.tokens}}) {
    plan->add_option(name, *value)->capture_default_str();
  }
  CLI11_PARSE(app, argc, argv);
  if (plan->parsed()) plan_gpt(g);
  if (step->parsed()) time_step(a);
  if (comparison->parsed()) time_comparison(a);
  if (exchange->parsed()) time_exchanges(e);
  return 0;
}

}  // namespace
}  // namespace lockstep::benches

int main(int argc, char** argv) {
  try {
    return lockstep::benches::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_processes: %s\n", error.what());
    lockstep::abort_processes(error.what());
    return 2;
  }
}
