#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <lockstep/lockstep.h>

#include "engine/cli/experiment.h"
#include "engine/cli/run_folder.h"
#include "engine/cli/run_record.h"
#include "engine/python/bindings.h"
#include "engine/python/numpy_arrays.h"

namespace lockstep::python {

namespace nb = nanobind;
namespace fs = std::filesystem;

namespace {

/// What a training left in its folder. Files are read when they are asked for, a checkpoint once for each step.
class Run {
 public:
  explicit Run(fs::path folder) : record_(cli::read_run(folder)) {}

  const cli::RunRecord& record() const { return record_; }

  std::int64_t step_or_latest(std::optional<std::int64_t> step) const {
    if (step) return *step;
    if (!record_.saved.empty()) return record_.saved.back();
    throw CheckpointError("[Run] " + record_.folder.string() +
                          " holds no checkpoint yet; wait for the first, or see --checkpoint-every of lockstep train");
  }

  /// A TrainState's trees of these names; one without leaves was not saved.
  std::pair<Tree, Tree> variables(std::int64_t step) const {
    checkpoint::Manager checkpoints(record_.folder / "checkpoints");
    const Tree state = checkpoints.restore(step).tree.at("state");
    const auto part = [&](const char* name) { return state.contains(name) ? state.at(name) : Tree::dict({}); };
    return {part("trainable"), part("non_trainable")};
  }

  std::optional<std::string> recorded_fingerprint() const { return cli::written_fingerprint(record_.folder); }

  /// The model's output, in evaluation.
  Array predict(const Array& x, std::int64_t step) {
    const auto [weights, state] = variables(step);
    const Model<Array, Array> model = this->model();
    const auto call = [&](const Tree& trainable, const Tree& non_trainable, const Array& rows) {
      return model.stateless_call(trainable, non_trainable, rows, false).first;
    };
    return jit(call)(weights, state, x);
  }

 private:
  /// As the run's own config says; how many classes it has is the data's to say, which is read once.
  Model<Array, Array> model() {
    const std::scoped_lock lock(*mutex_);
    if (!model_) {
      const fs::path config = record_.folder / "config.toml";
      if (!fs::exists(config)) {
        throw DataError("[Run] " + config.string() +
                        " is not there, so the run's model is not known; use weights() and an exported function");
      }
      const cli::TrainArguments arguments =
          cli::parse_train({"--config", config.string(), "--run", record_.folder.string()});
      model_ = cli::model_of(arguments, cli::load(arguments).train);
    }
    return *model_;
  }

  cli::RunRecord record_;
  std::optional<Model<Array, Array>> model_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();
};

/// Each column of metrics.csv; NaN where a cell is empty, steps as integers.
nb::dict metrics_of(const Run& run) {
  nb::dict metrics;
  for (const std::string& column : run.record().metrics.columns) {
    std::vector<double> values;
    for (const std::optional<double>& cell : cli::numbers_of(run.record().metrics, column)) {
      values.push_back(cell.value_or(std::numeric_limits<double>::quiet_NaN()));
    }
    const Array all = array(values);
    metrics[column.c_str()] = numpy_of(column == "step" ? convert(all, int64) : all);
  }
  return metrics;
}

/// By path, trainable and not.
nb::dict weights_of(const Run& run, std::optional<std::int64_t> step) {
  nb::dict weights;
  const auto [trainable, non_trainable] = run.variables(run.step_or_latest(step));
  for (const Tree& tree : {trainable, non_trainable}) {
    const std::vector<std::string> paths = tree.paths();
    const std::vector<Array> leaves = tree.leaves();
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].dtype() == DType::key) continue;
      weights[paths[i].c_str()] = numpy_of(leaves[i]);
    }
  }
  return weights;
}

}  // namespace

void bind_runs(nb::module_& module) {
  const auto step = nb::arg("step") = nb::none();
  nb::class_<Run>(module, "Run", "The folder of a training by `lockstep train`.")
      .def(nb::init<fs::path>(), nb::arg("path"))
      .def_prop_ro("path", [](const Run& run) { return run.record().folder; })
      .def_prop_ro(
          "manifest", [](const Run& run) { return run.record().manifest; }, "What its bits depend on, as text.")
      .def_prop_ro("metrics", &metrics_of, "Columns of metrics.csv as NumPy arrays; NaN where nothing was written.")
      .def_prop_ro(
          "steps", [](const Run& run) { return run.record().saved; }, "Those that a checkpoint is there of.")
      .def_prop_ro("fingerprint", &Run::recorded_fingerprint, "SHA-256 of the last state; None while the run goes on.")
      .def("weights", &weights_of, step, "Variables of the model by path, of the latest checkpoint or that of a step.")
      .def(
          "predict",
          [](Run& run, nb::handle x, std::optional<std::int64_t> step) {
            const Array rows = array_of(x);
            const auto predicted = [&] {
              const nb::gil_scoped_release unlocked;
              return run.predict(rows, run.step_or_latest(step));
            };
            return numpy_of(predicted());
          },
          nb::arg("x"), step, "What the run's model gives for rows, not in training. Its data set is read once.");
}

}  // namespace lockstep::python
