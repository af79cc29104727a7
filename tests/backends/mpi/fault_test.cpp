#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/faulty_job.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/training.h"

// Processes that go wrong under mpirun: the job ends in time, not well, says why, and leaves nothing.
namespace lockstep::tests {
namespace {

constexpr int fault_step = 3;
constexpr double limit = 2;
constexpr double grace = 20;  // of launcher and machine

bool has_fault(const std::string& name) { return std::getenv("LOCKSTEP_TEST_FAULT") == name; }
/// In the one process where something goes wrong.
bool is_here(const std::string& name) { return has_fault(name) && world()->rank() == world()->size() - 1; }

struct FaultPlan {
  DType dtype = float32;
  std::uint64_t seed = 1;
  double rate = 0.1;
  std::uint64_t data = 2;
  int shards = 8;
  int steps = 6;
  bool is_other_program = false;
  bool operator==(const FaultPlan&) const = default;
};

FaultPlan plan_of_this_process() {
  FaultPlan plan;
  if (is_here("another dtype")) plan.dtype = float64;
  if (is_here("another seed")) plan.seed = 9;
  if (is_here("another rate")) plan.rate = 0.2;
  if (is_here("another data file")) plan.data = 9;
  if (is_here("another V")) plan.shards = 4;
  if (is_here("another step count")) plan.steps = 4;
  if (is_here("another program")) plan.is_other_program = true;
  return plan;
}

void sleep_seconds(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

/// What happens before a step.
void before_step() {
  if (is_here("killed before")) announce_fault(), std::raise(SIGKILL);
  if (is_here("stopped")) announce_fault(), std::raise(SIGSTOP);
  if (is_here("late")) sleep_seconds(1);
  if (is_here("late at work")) {
    const AtWork at_work(*world());
    sleep_seconds(1.5 * limit);
  }
  if (is_here("too late")) announce_fault(), sleep_seconds(60);
  if (is_here("throwing")) announce_fault(), throw DataError("row 7 is bad");
  if (is_here("a full log")) {
    announce_fault();
    std::ofstream log("/dev/full");
    log << "step\n";
    if (!log.flush()) throw DataError("the log on /dev/full cannot be written");
  }
  if (has_fault("killed in")) {
    if (!is_here("killed in")) return sleep_seconds(0.6);  // the other one waits in its collective
    std::thread([] {
      sleep_seconds(0.3);
      announce_fault();
      std::raise(SIGKILL);
    }).detach();
  }
}

/// From here on this process writes no file of more than 16 bytes.
void fill_disk() {
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit no_room{16, RLIM_INFINITY};
  setrlimit(RLIMIT_FSIZE, &no_room);
}

void after_step(const TrainState& state) {
  if (is_here("killed after")) announce_fault(), std::raise(SIGKILL);
  const std::filesystem::path folder = std::getenv("LOCKSTEP_TEST_FOLDER");
  if (has_fault("a full disk")) {
    if (world()->rank() == 0) announce_fault(), fill_disk();
    checkpoint::save(folder / "saved", to_tree(state), {});
  }
  if (has_fault("a full disk, of one that writes blocks")) {
    if (is_here("a full disk, of one that writes blocks")) announce_fault(), fill_disk();
    const Mesh mesh({{"data", 4}}, {Device{}});
    checkpoint::save(folder / "saved", Tree::dict({{"w", Tree(reshard(ones({64, 4}), mesh, sharded("data")))}}), {});
  }
  if (has_fault("saved alone") && world()->rank() == 0) {
    announce_fault();
    checkpoint::save(folder / "saved", to_tree(state), {});
  }
  if (has_fault("saved by all")) checkpoint::save(folder / "saved", to_tree(state), {});
}

/// How often the derivative between the layers has been computed: once a shard and step.
std::atomic<int>& backward_passes() {
  static std::atomic<int> count{0};
  return count;
}

/// The identity, in whose derivative a process may be killed: of the last of its four shards, in the fault's step, when sums
/// of the last layer's gradients are under way, but not those of the first one's.
const CustomOp& between_layers() {
  const auto same = [](std::span<const ArrayType> operands) { return std::vector<ArrayType>{operands[0]}; };
  const auto copy = [](const KernelCall& call) {
    std::ranges::copy(call.operand<float>(0), call.result<float>(0).begin());
  };
  static const CustomOp backward({.name = "backward_between", .infer = same, .kernel = [copy](const KernelCall& call) {
                                    if (++backward_passes() == 4 * (fault_step + 1)) {
                                      announce_fault();
                                      if (world()->rank() == world()->size() - 1) std::raise(SIGKILL);
                                    }
                                    copy(call);
                                  }});
  static const CustomOp forward({.name = "between",
                                 .infer = same,
                                 .kernel = copy,
                                 .vjp = [](std::span<const Array>, std::span<const Array>, std::span<const Array> dy) {
                                   return std::vector<Array>{backward(dy[0])};
                                 }});
  return forward;
}

Model<Array, Array> small_model(bool other) {
  return Model<Array, Array>([other](const Scope& scope, const Array& x) {
    Array h = dense(scope["in"], x, {.units = 8});
    if (has_fault("killed between")) h = between_layers()(h);
    h = dense(scope["middle"], tanh(h), {.units = 8});
    return dense(scope["out"], other ? sin(h) : tanh(h), {.units = 1});
  });
}

/// What lies cut, or is to, one way in this process and another way elsewhere.
void cut_otherwise() {
  announce_fault();
  const Mesh mesh({{"data", 2}, {"model", 2}}, {Device{}});
  const Array rows = reshard(ones({4, 4}), mesh, sharded("data"));
  if (has_fault("resharding otherwise")) {
    static_cast<void>(is_here("resharding otherwise") ? gather(rows) : reshard(rows, mesh, sharded("data", 1)));
    return;
  }
  const Array columns = reshard(ones({4, 4}), mesh, sharded("data", 1));
  check_replicas("the state", Tree::dict({{"w", Tree(is_here("lying otherwise") ? columns : rows)}}));
}

void train_by_plan(const FaultPlan& plan) {
  const auto model = small_model(plan.is_other_program);
  const auto loss = [](const Array& y, const Batch& b) { return mean_squared_error(y, b.y, b.weight); };
  const DataParallelOptions options{.devices = devices("cpu:0"), .shards = plan.shards};
  const TrainStep step = data_parallel(model, loss, optim::adam(plan.rate), options);
  const Batch batch = regression_batch(16, 5, plan.dtype, plan.data);
  auto [trainable, non_trainable] = model.init(random::key(plan.seed), batch.x);
  TrainState state = step.init(std::move(trainable), std::move(non_trainable));
  if (plan != FaultPlan()) announce_fault();  // what began it all is not to be counted
  for (int i = 0; i < plan.steps; ++i) {
    if (i == fault_step) before_step();
    state = step(std::move(state), batch).first;
    if (i == fault_step) after_step(state);
  }
  if (is_here("drifting")) state.trainable = state.trainable.with("out/bias", Tree(ones({1}, plan.dtype)));
  if (has_fault("drifting")) announce_fault(), check_replicas("the state", to_tree(state));
  if (has_fault("alone at the end") && world()->rank() == 0) sleep_seconds(2 * limit);
  if (has_fault("lying otherwise") || has_fault("resharding otherwise")) cut_otherwise();
}

/// A row of NaN, by which the loss is NaN in all processes alike, or a bad row in one.
Batch bad_batch(const Batch& batch) {
  Batch bad = batch;
  if (has_fault("a NaN in all") || has_fault("a NaN found in all")) {
    bad.x = where(reshape(arange(16, int32) == 5, {16, 1}), std::nanf(""), batch.x);
  }
  return bad;
}

/// A program that catches an error of one step and goes on without that batch.
void train_with_guard() {
  const auto model = small_model(false);
  const auto loss = [model](const Tree& w, const Tree& state, const Batch& b) {
    auto [y, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
    const Weighted term = mean_squared_error(y, b.y, b.weight);
    if (has_fault("a NaN in all")) error_if(isnan(psum(term.sum, {"batch"})), "the loss is NaN");
    return WithAux{term, next, {}};
  };
  DataParallelOptions options{.devices = devices("cpu:0"), .shards = 8};
  options.debug.nans = has_fault("a NaN found in all");
  const TrainStep step = data_parallel(loss, optim::adam(0.1), options);
  const Batch batch = regression_batch(16, 5, float32, 2);
  TrainState state = fresh_state(step, model, batch);
  int skipped = 0;
  for (int i = 0; i < 8; ++i) {
    const bool is_bad = i == 2 || i == 3 || i == 6;
    if (is_bad) announce_fault();
    try {
      if (is_bad && has_fault("a bad row in all")) tell_processes([] { throw DataError("row 5 is bad"); });
      if (is_bad && is_here("a bad row in one")) tell_processes([] { throw DataError("row 5 is bad"); });
      if (is_bad && is_here("a bad row, kept to itself")) throw DataError("row 5 is bad");
      if (is_bad && is_here("a bad row, and no step")) throw DataError("row 5 is bad");
      if (is_bad && has_fault("bad rows of all")) {
        tell_processes([] { throw DataError("row " + std::to_string(world()->rank()) + " is bad"); });
      }
      state = step(state, is_bad ? bad_batch(batch) : batch).first;
    } catch (const CommunicatorError&) {
      throw;
    } catch (const Error& error) {
      ++skipped;
      std::printf("process %d skips: %s\n", world()->rank(), error.what());
      if (has_fault("a bad row, kept to itself")) state = step(state, batch).first;
    }
  }
  check_replicas("the state", to_tree(state));
  std::printf("process %d went on after %d, step %d\n", world()->rank(), skipped,
              static_cast<int>(state.step.item<std::int64_t>()));
}

struct Fault {
  std::string name;
  std::vector<std::string> parts;  ///< Of what the job says.
  int processes = 2;
};

const std::vector<std::string>& communicators() {
  static const std::vector<std::string> names = {"shared_memory", "mpi"};
  return names;
}

/// Sums of gradients begin while the backward pass runs, each by itself.
const std::string early_sums = "LOCKSTEP_BUCKET_BYTES=16 ";

/// Runs the job as often as is asked for, by each communicator in turn; where LOCKSTEP_FAULT names a fault, that one alone.
void check_fault(const Fault& fault) {
  if (const char* only = std::getenv("LOCKSTEP_FAULT"); only != nullptr && fault.name != only) return;
  FaultTally tally(fault.name, fault.processes);
  for (int i = 0; i < std::max<int>(fault_runs(), static_cast<int>(communicators().size())); ++i) {
    const std::string& communicator = communicators()[static_cast<std::size_t>(i) % communicators().size()];
    const TemporaryFolder folder;
    const JobEnd end = end_of_job(
        early_sums + "LOCKSTEP_COMMUNICATOR=" + communicator + " LOCKSTEP_TEST_FAULT='" + fault.name +
        "' LOCKSTEP_TEST_FOLDER='" + folder.path().string() + "' LOCKSTEP_FLIGHT_RECORDER='" + folder.path().string() +
        "' LOCKSTEP_COLLECTIVE_TIMEOUT=2 " + mpirun(fault.processes) + run_of_case("what a process with a fault does"));
    CAPTURE(fault.name);
    CAPTURE(communicator);
    CAPTURE(i);
    CAPTURE(end.output);
    CAPTURE(end.seconds);
    CHECK(tally.add(end, limit + grace, fault.parts));
  }
}

JobEnd end_of_guarded(const std::string& fault, int processes, const std::string& settings = {}) {
  return end_of_job(settings + "LOCKSTEP_TEST_FAULT='" + fault + "' LOCKSTEP_COLLECTIVE_TIMEOUT=2 " +
                    mpirun(processes) + run_of_case("what a process does that catches an error and goes on"));
}

}  // namespace

TEST_CASE("what a process with a fault does" * doctest::skip()) {
  announce_process();
  try {
    tell_processes([] { train_by_plan(plan_of_this_process()); });
  } catch (const Error& error) {
    std::printf("process %d says: %s\n", world()->rank(), error.what());
    std::fflush(stdout);
    FAIL("the training failed");
  }
}

TEST_CASE("what a process does that catches an error and goes on" * doctest::skip()) {
  announce_process();
  try {
    train_with_guard();
  } catch (const Error& error) {
    std::printf("process %d says: %s\n", world()->rank(), error.what());
    std::fflush(stdout);
    abort_processes(error.what());
    FAIL("the training failed");
  }
}

TEST_CASE("fault: one that is killed or stopped, or comes too late, ends the job") {
  if (!can_launch()) return skip(no_launcher());
  check_fault({"killed before", {"signal 9"}});
  check_fault({"killed in", {"signal 9"}});
  check_fault({"killed after", {"signal 9"}});
  check_fault({"killed between", {"signal 9"}});
  check_fault(
      {"stopped", {"process 0 says: process 1 did not come within 2 s to collective ", "the last events are in"}});
  check_fault({"stopped", {"process 3 did not come within 2 s to collective "}, 4});
  check_fault({"too late", {"process 0 says: process 1 is alive, but did not come within 2 s to collective "}});
}

TEST_CASE("fault: what one throws, the others say") {
  if (!can_launch()) return skip(no_launcher());
  check_fault({"throwing", {"process 1 says: row 7 is bad", "process 0 says: process 1 failed: row 7 is bad"}});
  check_fault({"throwing", {"process 2 says: process 3 failed: row 7 is bad"}, 4});
  check_fault({"a full log", {"process 0 says: process 1 failed: the log on /dev/full cannot be written"}});
  check_fault({"a full disk", {"process 0 says: [checkpoint]", "process 1 says: process 0 failed: [checkpoint]"}});
  check_fault({"a full disk, of one that writes blocks",
               {"process 1 says: [save] process 1: [checkpoint]", "process 0 says: [save] process 1: [checkpoint]"}});
  check_fault({"saved alone", {"call checkpoint::save in every process: process 0 alone writes"}});
}

TEST_CASE("fault: processes that were started differently say in what") {
  if (!can_launch()) return skip(no_launcher());
  check_fault({"another seed",
               {"process 0 says: a compiled function: the value of argument 0/trainable/",
                "process 1 says: a compiled function: the value of argument 0/trainable/"}});
  check_fault({"another data file", {"a compiled function: the value of argument 1/x is "}});
  check_fault({"another rate", {"a compiled function: the program is '", "value=0.1", "value=0.2"}});
  check_fault({"another program", {"a compiled function: the program is '", "tanh", "sin"}});
  check_fault({"another V", {"the mesh is 'batch 8' in process 0, 'batch 4' in process 1"}});
  check_fault({"another dtype", {"a compiled function: the program is '", "f32", "f64"}});
  check_fault({"another step count", {"process 1 has ended after ", "process 0 waits for it in collective "}});
  check_fault({"drifting", {"the state: 'trainable/out/bias' is 'f32[1] with the hash "}});
  check_fault({"lying otherwise",
               {"the state: 'w' is 'f32[4,4] that lies cut (dimension 0 along data) with the hash ",
                "'f32[4,4] that lies cut (dimension 1 along data) with the hash "}});
  check_fault({"resharding otherwise", {"a compiled function: the program is '", "reshard"}});
}

TEST_CASE("an error that all processes catch alike, or that nobody was told, ends nothing") {
  if (!can_launch()) return skip(no_launcher());
  struct Outcome {
    std::string fault, first, last;  ///< What is printed by process 0 and the last one.
  };
  const std::vector<Outcome> outcomes = {
      {"a NaN in all", "went on after 3, step 5", "went on after 3, step 5"},
      {"a NaN found in all", "went on after 3, step 5", "went on after 3, step 5"},
      {"a bad row in all", "went on after 3, step 5", "went on after 3, step 5"},
      {"a bad row, kept to itself", "went on after 0, step 8", "went on after 3, step 8"},
  };
  for (const int processes : {2, 4}) {
    for (const Outcome& outcome : outcomes) {
      for (const std::string& settings : {std::string(), early_sums, early_sums + "LOCKSTEP_COMMUNICATOR=mpi "}) {
        const JobEnd end = end_of_guarded(outcome.fault, processes, settings);
        CAPTURE(outcome.fault);
        CAPTURE(settings);
        CAPTURE(end.output);
        CHECK(end.succeeded);
        CHECK(end.left_over.empty());
        CHECK(contains(end.output, "process 0 " + outcome.first));
        CHECK(contains(end.output, "process " + std::to_string(processes - 1) + " " + outcome.last));
      }
    }
  }
}

TEST_CASE("an error that some processes catch, or other ones each, ends the job, and says so") {
  if (!can_launch()) return skip(no_launcher());
  const std::vector<Fault> faults = {
      {"a bad row in one",
       {"process 0 says: process 1 failed: row 5 is bad", "process 1 says: ",
        "collectives: row 5 is bad; and process 0 did not; after an error go on only where all processes catch"}},
      {"bad rows of all", {"row 0 is bad; and process 1 failed after ", "row 1 is bad; and process 0 failed after "}},
      {"a bad row, and no step", {"process 0 says: process 0 is in collective ", "and process 1 in collective "}},
  };
  for (const Fault& fault : faults) {
    const JobEnd end = end_of_guarded(fault.name, fault.processes, early_sums);
    CAPTURE(fault.name);
    CAPTURE(end.output);
    CHECK_FALSE(end.succeeded);
    CHECK(end.seconds < limit + grace);
    CHECK(end.left_over.empty());
    for (const std::string& part : fault.parts) CHECK_MESSAGE(contains(end.output, part), part);
  }
}

TEST_CASE(
    "one that is late within the limit or at work, a save by all, and work of one behind the last step are no faults") {
  if (!can_launch()) return skip(no_launcher());
  for (const std::string fault : {"late", "late at work", "saved by all", "alone at the end"}) {
    const TemporaryFolder folder;
    const JobEnd end =
        end_of_job("LOCKSTEP_TEST_FAULT='" + fault + "' LOCKSTEP_TEST_FOLDER='" + folder.path().string() +
                   "' LOCKSTEP_COLLECTIVE_TIMEOUT=2 " + mpirun(2) + run_of_case("what a process with a fault does"));
    CAPTURE(end.output);
    CHECK(end.succeeded);
    CHECK(end.left_over.empty());
    CHECK(std::filesystem::exists(folder.path() / "saved" / "manifest.json") == (fault == "saved by all"));
  }
}

}  // namespace lockstep::tests
