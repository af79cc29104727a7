// Jobs of which one process has other values than the rest while it runs.
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/lockstep.h>

#include "tests/support/expect_error.h"
#include "tests/support/faulty_job.h"
#include "tests/trainer/small_training.h"

// What one process alone has otherwise while a run goes on ends the job, and is named: a number of a later batch, and what
// callbacks ask for.
namespace lockstep::tests {
namespace {

constexpr std::int64_t last_step = 6;

bool has_value_fault(const std::string& name) { return std::getenv("LOCKSTEP_TEST_FAULT") == name; }
bool is_other_here(const std::string& name) { return has_value_fault(name) && world()->rank() == world()->size() - 1; }

/// Asks for what the fault says behind step 3 (or at the end), in one process or otherwise there.
class Asking final : public Callback {
 public:
  std::int64_t every() const override { return 1; }
  bool judges_steps() const override { return has_value_fault("a step that one discards"); }
  bool may_discard() const override { return judges_steps(); }
  bool accepts(const StepReport& report, Requests&) override {
    return !(report.step == 3 && is_other_here("a step that one discards"));
  }
  void on_step(const StepReport& report, const Tree& state, Requests& requests) override {
    const Tree weights = state.at("trainable/w");
    const auto doubled = [&] { requests.replace("trainable/w", Tree(2.0F * weights.array())); };
    if (report.step == last_step && is_other_here("a last replacement")) doubled();
    if (report.step != 3) return;
    if (is_other_here("a replacement")) doubled();
    if (has_value_fault("other replacements")) {
      requests.replace("trainable/w", Tree(weights.array() * (is_other_here("other replacements") ? 2.0F : 3.0F)));
    }
    if (is_other_here("a rate")) requests.set_hyperparameter("learning_rate", 0.5);
    if (has_value_fault("other rates"))
      requests.set_hyperparameter("learning_rate", is_other_here("other rates") ? 0.5 : 0.25);
    if (is_other_here("a stop")) requests.stop("enough");
    if (has_value_fault("the same of all")) doubled(), requests.set_hyperparameter("learning_rate", 0.5);
  }
};

Batch batch_of(std::int64_t i) {
  const Array key = random::fold_in(random::key(1), static_cast<std::uint32_t>(i));
  std::vector<float> x = random::normal(key, {8, 3}).to_vector<float>();
  if (i == 3 && is_other_here("a number of a later row")) x[13] = std::nextafter(x[13], 9.0F);
  if (i == 0 && is_other_here("a number of the first batch")) x[13] = std::nextafter(x[13], 9.0F);
  return {array(std::move(x), {8, 3}), random::normal(random::fold_in(key, 1), {8, 1}), ones({8})};
}

}  // namespace

TEST_CASE("what a process of a job of other values does" * doctest::skip()) {
  announce_process();
  try {
    const TrainStep step = line_step();
    std::int64_t i = 0;
    const TrainState last = fit(step, line_start(step), [&]() -> std::optional<Batch> { return batch_of(i++); },
                                {.steps = last_step}, {std::make_shared<Asking>()});
    std::printf("\nprocess %d ends with %s\n", world()->rank(), fingerprint(to_tree(last)).c_str());
    std::fflush(stdout);
  } catch (const Error& error) {
    std::printf("\nprocess says: %s\n", error.what());
    std::fflush(stdout);
    FAIL_CHECK("the run failed");
  }
}

TEST_CASE(
    "a number of a later batch, or a callback's request, that one process has otherwise is an error that names it") {
  if (!can_launch()) return skip(no_launcher());
  struct Case {
    std::string fault, text;
  };
  const std::string same =
      " is not the same in processes 0 and 1; let every process read the same data in the same order, "
      "and decide alike";
  const std::string ask =
      "; let callbacks ask for the same in every process: one that looks at what only this process has "
      "(time, a file, its rank) tells the others first";
  const std::vector<Case> cases = {
      {"a number of the first batch", "the value of argument 1/x is 'bytes with the hash "},
      {"a number of a later row",
       "the value of one of argument 1/weight, argument 1/x, argument 1/y in call 4 of program "},
      {"a number of a later row", same},
      {"a replacement", ask},
      {"other replacements",
       "what callbacks ask for behind step 3, what replaces 'trainable/w': '' is 'f32[3,1] with the hash "},
      {"a rate", ask},
      {"other rates",
       "what callbacks ask for behind step 3: the hyper-parameter 'learning_rate' is '0.25' in process 0, '0.5' in "
       "process 1"},
      {"a stop", ask},
      {"a last replacement", ask},
      {"a step that one discards", "whether callbacks accept step 3"},
  };
  std::vector<std::string> commands;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    commands.push_back("LOCKSTEP_TEST_FAULT='" + cases[i].fault + "' LOCKSTEP_COLLECTIVE_TIMEOUT=20 " +
                       (i % 2 == 0 ? "LOCKSTEP_COMMUNICATOR=mpi " : "") + mpirun(2) +
                       run_of_case("what a process of a job of other values does"));
  }
  const std::vector<JobEnd> ends = ends_of_jobs(commands);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    CAPTURE(commands[i]);
    CAPTURE(ends[i].output);
    CHECK_FALSE(ends[i].hung);
    CHECK_FALSE(ends[i].succeeded);
    CHECK(ends[i].left_over.empty());
    CHECK(contains(ends[i].output, cases[i].text));
  }
}

TEST_CASE("what all processes have alike ends well, with one fingerprint") {
  if (!can_launch()) return skip(no_launcher());
  for (const std::string fault : {"none", "the same of all"}) {
    const std::string output =
        launched(2, "what a process of a job of other values does", "LOCKSTEP_TEST_FAULT='" + fault + "' ");
    CAPTURE(output);
    const std::size_t at = output.find("process 0 ends with ");
    REQUIRE(at != std::string::npos);
    CHECK(count(output, output.substr(at + 9, 11 + 64)) == 2);
  }
}

TEST_CASE("a variable that a library reads, by either of its names, that one process has otherwise is named") {
  if (!can_launch()) return skip(no_launcher());
  for (const std::string name : {"DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA", "GLIBC_TUNABLES", "MKL_CBWR"}) {
    CAPTURE(name);
    const std::string run = run_of_case("what a process of a job of other values does");
    const std::string value = name == "GLIBC_TUNABLES" ? "glibc.malloc.check=0" : name == "MKL_CBWR" ? "AVX2" : "AVX2";
    const JobEnd end = end_of_job("LOCKSTEP_TEST_FAULT=none mpirun --allow-run-as-root --oversubscribe -n 1 " + run +
                                  " : -n 1 env " + name + "=" + value + " " + run);
    CAPTURE(end.output);
    CHECK_FALSE(end.succeeded);
    CHECK(contains(end.output, "a compiled function: 'env " + name + "' is absent in process 0, '" + value +
                                   "' in process 1; start all processes with the same one, or they would not train one "
                                   "model"));
  }
}

}  // namespace lockstep::tests
