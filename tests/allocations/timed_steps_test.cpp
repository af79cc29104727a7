#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <lockstep/backend/isa.h>
#include <lockstep/lockstep.h>

#include "benches/workloads.h"
#include "tests/allocations/counted_allocations.h"
#include "tests/support/launcher.h"

// The steps that are timed, with fewer rows: what a steady one takes from the allocator, and which of oneDNN's primitives
// it runs.
namespace lockstep::tests {
namespace {

using benches::Workload;

/// With a quarter of its rows, and one for each of eight shards at the least.
Workload with_fewer_rows(std::string_view name) {
  Workload workload = benches::find_workload(name);
  workload.x.shape = workload.x.shape.with(0, std::max<std::int64_t>(8, workload.rows() / 4));
  return workload;
}

/// A step on two devices and what it is called with.
class TimedStep {
 public:
  TimedStep(const Workload& workload, const DataParallelOptions& options)
      : step_(data_parallel(
            workload.model,
            [model = workload.model](const Tree& w, const Tree& state, const Batch& b) {
              auto [logits, next] = model.stateless_call(w, state, b.x, true, {.rows = b.weight});
              return WithAux{softmax_cross_entropy(logits, b.y, b.weight), next, {}};
            },
            workload.optimizer(), options)) {
    const Tree batches = benches::draw_batches(workload, 1, 1);
    batch_ = {batches.at("x").array()[0], batches.at("y").array()[0], ones({workload.rows()})};
    auto [weights, state] = workload.model.init(random::key(0), workload.x);
    state_ = step_.init(std::move(weights), std::move(state));
  }

  void run() { std::tie(state_, logs_) = step_(std::move(state_), batch_); }
  float loss() const { return logs_.at("loss").item<float>(); }

 private:
  TrainStep step_;
  Batch batch_;
  TrainState state_;
  Logs logs_;
};

/// Calls `use` with a step of each model, two shards and eight, and eight in bfloat16.
template <class Use>
void for_each_timed_step(const Use& use) {
  for (const std::string_view name : benches::workload_names()) {
    const Workload workload = with_fewer_rows(name);
    for (const auto& [shards, precision] :
         {std::pair{2, Precision::float32}, std::pair{8, Precision::float32}, std::pair{8, Precision::bfloat16}}) {
      CAPTURE(name);
      CAPTURE(shards);
      CAPTURE(lockstep::name(precision));
      TimedStep step(workload, {.devices = devices("cpu:0-1"), .shards = shards, .precision = precision});
      use(step);
    }
  }
}

/// The shapes of all weights, as oneDNN prints a kernel's: "16x3x3x3" has 16 features of 3 channels.
std::set<std::string> kernel_shapes() {
  std::set<std::string> shapes;
  for (const std::string_view name : benches::workload_names()) {
    const Workload workload = with_fewer_rows(name);
    for (const Variable& v : workload.model.variables(zeros(workload.x.shape, workload.x.dtype))) {
      const Shape& s = v.type.shape;
      if (s.rank() != 4) continue;
      std::string text;
      for (const int dim : {3, 2, 0, 1}) text += (text.empty() ? "" : "x") + std::to_string(s[dim]);
      shapes.insert(text);
    }
  }
  return shapes;
}

}  // namespace

TEST_CASE("a steady step of each timed model allocates nothing of its own") {
  for_each_timed_step([](TimedStep& step) {
    for (int i = 0; i < 3; ++i) step.run();
    if (counts_allocations()) CHECK(allocations_during([&] { step.run(); }) == 0);
    CHECK(step.loss() > 0);
  });
}

TEST_CASE("the timed models' steps bring only kernels to oneDNN's layouts and run none of its plain loops") {
  // oneDNN names each primitive that it runs, where it is told to before it is loaded.
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  std::istringstream lines(
      output_of("ONEDNN_VERBOSE=profile_exec " + program + " -tc='a steady step of each timed model*'"));
  const std::set<std::string> kernels = kernel_shapes();
  std::map<std::string, int> runs;
  for (std::string line; std::getline(lines, line);) {
    // onednn_verbose,exec,cpu,reorder,jit:uni,undef,...,16x3x3x3,0.005; newer versions write more in front of exec
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
    const auto exec = std::find(fields.begin(), fields.end(), "exec");
    if (fields.size() < 9 || fields[0] != "onednn_verbose" || exec == fields.end()) continue;
    const std::string& kind = exec[2];
    const std::string& implementation = exec[3];
    CAPTURE(line);
    ++runs[kind];
    CHECK(implementation.find("ref") == std::string::npos);
    if (kind == "reorder") CHECK(kernels.contains(fields[fields.size() - 2]));
  }
  if (backend::usable_isa() == backend::Isa::none) return skip("oneDNN offers nothing without vector instructions");
  for (const char* const kind : {"convolution", "matmul"}) {
    CAPTURE(kind);
    CHECK(runs[kind] > 100);
  }
}

}  // namespace lockstep::tests
