#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

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
  bool mean = false;  ///< Where processes take turns, medians leave out the turns of others.
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

/// Calls `step` for that long, every process equally often, and returns the median, or mean, of what a call took.
double seconds_per_step(const std::function<void()>& step, const Timing& timing) {
  using Clock = std::chrono::steady_clock;
  const auto timed = [&] {
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
  for (std::int64_t i = 0; i < calls; ++i) samples.push_back(timed());
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
std::string text(const Plan& plan, std::int64_t parameters, double seconds) {
  std::string collectives;
  for (const CollectiveCost& cost : plan.collective_costs) {
    collectives += fmt::format("{}[{}, {}]", collectives.empty() ? "" : ", ", cost.bytes, cost.times);
  }
  return fmt::format(
      R"({{"seconds": {:.9f}, "flops": {:.9g}, "parameters": {}, "collectives": [{}], "shard_bytes": {}, )"
      R"("scratch_bytes": {}, "arena_bytes": {}}})",
      seconds, plan.flops, parameters, collectives, plan.shard_bytes, plan.scratch_bytes, plan.arena_bytes);
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

double seconds_of_a_step(Work& work, const Timing& timing) {
  return seconds_per_step(
      [&] {
        auto [next, logs] = work.step(std::move(work.state), work.batch);
        work.state = std::move(next);
        logs.at("loss").item<float>();
      },
      timing);
}

void time_step(const StepArguments& a) {
  const auto profile = a.profile ? std::make_shared<Profile>(ProfileOptions{.skip = 100, .calls = 100}) : nullptr;
  Work work = work_of(a, profile);
  const Plan plan = work.step.program(work.state, work.batch).plan();
  say(text(plan, work.parameters, seconds_of_a_step(work, a.timing)));
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
  const Timing eighth{a.timing.seconds / 8, a.timing.mean};
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

/// A psum of one shard a process, of several sizes.
void time_exchanges(const Timing& timing, std::int64_t only) {
  const int processes = world()->size();
  const Mesh mesh({{"batch", processes}}, devices("cpu:0-0"));
  for (std::int64_t bytes = 1024; bytes <= (std::int64_t{64} << 20); bytes *= 4) {
    if (only > 0 && bytes != only) continue;
    const std::int64_t elements = bytes / 4;
    const Array x = ones({processes, elements});
    const auto sum = jit([&](const Array& a) {
      return pmap([](const Array& block) { return psum(block, {"batch"}); },
                  {.mesh = mesh, .in = {sharded("batch")}, .out = {replicated}})(a);
    });
    Array y;
    const double took = seconds_per_step([&] { y = sum(x); }, timing);
    say(fmt::format(R"({{"bytes": {}, "seconds": {:.9f}}})", bytes, took));
  }
}

/// Arithmetic that the compiler cannot leave out, of no memory.
double work(std::int64_t rounds) {
  double x = 1;
  for (std::int64_t i = 0; i < rounds; ++i) x = x * 0.999999 + 1e-6;
  return x;
}

/// What a meeting of all processes takes beside the work that each does before it: where processes share cores, one that is
/// waited for may not be running, and one that waits takes turns or sleeps. The same work of all processes, first alone.
void time_meetings(const Timing& timing) {
  using Clock = std::chrono::steady_clock;
  double kept = 0;
  const auto mean = [&](std::int64_t calls, std::int64_t rounds, bool meets) {
    world()->barrier();
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < calls; ++i) {
      kept += work(rounds);
      if (meets) world()->barrier();
    }
    if (!meets) world()->barrier();  // all of them have done all of it
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    return seconds / static_cast<double>(calls);
  };
  constexpr std::int64_t some = 1000000;
  double a_million = mean(10, some, false);
  world()->broadcast(std::as_writable_bytes(std::span(&a_million, 1)), 0);
  for (double wanted = 0.5e-3; wanted < 0.05; wanted *= 4) {
    const auto rounds = static_cast<std::int64_t>(wanted / a_million * some);
    const auto calls = std::clamp<std::int64_t>(static_cast<std::int64_t>(timing.seconds / wanted), 16, 2000);
    const double alone = mean(calls, rounds, false);
    const double together = mean(calls, rounds, true);
    if (kept > 0) say(fmt::format(R"({{"work": {:.9f}, "late": {:.9f}}})", alone, together - alone));
  }
}

int run(int argc, char** argv) {
  CLI::App app("Times what several processes do together, and one of them alone", "bench_processes");
  app.require_subcommand(1);
  StepArguments a;
  Timing each{.seconds = 0.5};
  std::int64_t only = 0;
  CLI::App* const step = app.add_subcommand("step", "A training step");
  step->add_option("workload", a.workload)->required();
  step->add_option("--shards", a.shards)->capture_default_str();
  step->add_option("--rows", a.rows, "Of a batch; 0: those of the workload")->capture_default_str();
  step->add_option("--devices", a.devices, "Of a process")->capture_default_str();
  step->add_option("--seconds", a.timing.seconds)->capture_default_str();
  step->add_flag("--mean", a.timing.mean, "In place of the median");
  step->add_flag("--profile", a.profile, "What the ops of 100 steps took, on standard error");
  CLI::App* const comparison = app.add_subcommand("comparison", "What is compared before a step's first call");
  comparison->add_option("workload", a.workload)->required();
  comparison->add_option("--shards", a.shards)->capture_default_str();
  comparison->add_option("--seconds", a.timing.seconds)->capture_default_str();
  CLI::App* const exchange = app.add_subcommand("exchange", "A sum over one shard of each process, by size");
  exchange->add_option("--seconds", each.seconds, "For each size")->capture_default_str();
  exchange->add_flag("--mean", each.mean, "In place of the median");
  exchange->add_option("--bytes", only, "This size alone: 1024 times a power of four; 0: all")->capture_default_str();
  CLI::App* const meetings = app.add_subcommand("meetings", "A meeting of all processes, by the work before it");
  meetings->add_option("--seconds", each.seconds, "For each amount of work")->capture_default_str();
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
  if (exchange->parsed()) time_exchanges(each, only);
  if (meetings->parsed()) time_meetings(each);
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
