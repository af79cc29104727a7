#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include <lockstep/lockstep.h>

#include "engine/cli/accepted_changes.h"
#include "engine/cli/commands.h"
#include "engine/cli/compare.h"
#include "engine/cli/experiment.h"
#include "engine/cli/given_paths.h"
#include "engine/cli/run_folder.h"
#include "engine/core/quoting.h"
#include "engine/files/folder_entries.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

/// Throws ValueError where the folder does not say what the run was asked for.
void check_is_run(const fs::path& run) {
  if (const std::string found = foreign_in(run); !found.empty()) throw ValueError(found);
  std::error_code error;
  if (fs::exists(config_of(run), error) || error) return;  // who then reads it says why it cannot be
  throw ValueError(fmt::format("{} is not there: {} is no run's folder; name one that `lockstep train --run` has made",
                               config_of(run).string(), run.string()));
}

/// Throws ValueError naming the first entry that config.toml has otherwise than manifest.json: one of them was changed.
void check_agrees(const fs::path& run, const TrainArguments& arguments) {
  const std::optional<Manifest> recorded = written_manifest(run);
  if (!recorded) return;
  const Manifest asked = asked_entries(arguments);
  Manifest all = asked;
  for (const auto& entry : *recorded) {
    if (entry.first.find('.') != std::string::npos) all.insert(entry);  // "model.width"
  }
  const auto shown = [](const Manifest& entries, const std::string& name) {
    const auto found = entries.find(name);
    return found == entries.end() ? std::string("absent") : "'" + found->second + "'";
  };
  for (const auto& [name, unused] : all) {
    if (shown(asked, name) == shown(*recorded, name)) continue;
    throw ValueError(fmt::format(
        "{} is not what the run was made with: {} is {} there and {} in manifest.json; one of the two was changed, so "
        "write it back",
        config_of(run).string(), name, shown(asked, name), shown(*recorded, name)));
  }
}

/// What a run was asked for. Throws as check_is_run and check_agrees.
TrainArguments arguments_of_run(const fs::path& run, const fs::path& data_dir) {
  check_is_run(run);
  TrainArguments arguments = parse_train({"--config", config_of(run).string(), "--run", run.string()});
  check_agrees(run, arguments);
  if (!data_dir.empty()) arguments.data_dir = data_dir;
  return arguments;
}

/// Throws DataError where a model for the run's data is none for these.
void check_fits(const fs::path& run, const TrainArguments& arguments, const data::Dataset& set) {
  const std::optional<Manifest> recorded = written_manifest(run);
  if (!recorded || !recorded->contains("row_shape") || !recorded->contains("classes")) return;
  const Manifest now = shape_of(set);
  const std::string was = recorded->at("row_shape"), classes = recorded->at("classes");
  if (was == now.at("row_shape") && classes == now.at("classes")) return;
  throw DataError(
      fmt::format("{}: the run was trained on rows of {} of {} classes, and {} has rows of {} of {} classes; name the "
                  "folder of the run's own data in --data-dir",
                  run.string(), was, classes,
                  arguments.data_dir.empty() ? "--data " + arguments.data : "--data-dir " + arguments.data_dir.string(),
                  now.at("row_shape"), now.at("classes")));
}

/// A run's model and the data to try it on.
struct Used {
  TrainArguments arguments;
  Model<Array, Array> model;
  DataParallelOptions options;
  std::shared_ptr<const data::Dataset> test;
  Tree state;  ///< A TrainState's.
  std::int64_t step = 0;
};

Used use(const UseArguments& a) {
  TrainArguments arguments = arguments_of_run(a.run, a.data_dir);
  DataSets sets = load(arguments);
  check_fits(a.run, arguments, sets.train);
  Model<Array, Array> model = model_of(arguments, sets.train);
  const DataParallelOptions options = parallel_options(arguments);
  checkpoint::Manager checkpoints(a.run / "checkpoints");
  const std::int64_t step = a.step > 0 ? a.step : checkpoints.step_of(checkpoint::Choice::latest);
  ArrayType example = sets.train.x.type;
  example.shape = example.shape.with(0, 1);
  auto [trainable, non_trainable] = model.init(random::key(0), example);
  const Tree like = Tree::dict({{"trainable", std::move(trainable)}, {"non_trainable", std::move(non_trainable)}});
  Tree state = checkpoints.restore(step, Tree::dict({{"state", like}}), {.ignore_surplus = true}).at("state");
  return {std::move(arguments),
          std::move(model),
          options,
          std::make_shared<const data::Dataset>(std::move(sets.test)),
          std::move(state),
          step};
}

}  // namespace

int evaluate_run(const UseArguments& a) {
  const Used used = use(a);
  const auto means = validation_of(used.model, used.options, used.test, used.arguments.batch)(used.state);
  if (world()->rank() != 0) return success;
  fmt::print("step {}\n", used.step);
  for (const auto& [name, value] : means) fmt::print("{} {:.6g}\n", name, value);
  return success;
}

int predict_run(const UseArguments& a) {
  const Used used = use(a);
  const auto classes = [&](const Batch& batch) {
    const Array logits =
        used.model.stateless_call(used.state.at("trainable"), used.state.at("non_trainable"), batch.x, false).first;
    return convert(argmax(logits, -1), int32);
  };
  const Array predicted = predict(
      jit(classes), data::Loader(used.test, {.batch = used.arguments.batch, .shuffle = false, .drop_last = false}));
  if (world()->rank() != 0) return success;
  const std::vector<std::int32_t> rows = predicted.to_vector<std::int32_t>();
  const auto* labels = reinterpret_cast<const std::int32_t*>(used.test->y.bytes.data());
  std::string text = "row,class,label\n";
  for (std::size_t i = 0; i < rows.size(); ++i) text += fmt::format("{},{},{}\n", i, rows[i], labels[i]);
  const fs::path out = a.out.empty() ? a.run / "predictions.csv" : a.out;
  write_file(out, text, "name another file in --out");
  fmt::print("{}\n", out.string());
  return success;
}

namespace {

/// Prints the entries that were others when the run was made, and counts them.
int print_other_entries(const RunRecord& recorded) {
  const Manifest machine = machine_description();
  int differing = 0;
  for (const auto& [name, there, here] : different_entries(recorded.manifest, machine)) {
    if (!machine.contains(name)) continue;  // not of the machine
    fmt::print("{}\n", printable(fmt::format("entry {}: {} when it was made, {} here", name, there, here)));
    ++differing;
  }
  return differing;
}

/// Which a run that is made again has from its first step on.
void print_accepted_changes(const fs::path& run) {
  for (const auto& [step, entry, was, now] : accepted_changes(run)) {
    fmt::print(
        "it was resumed from step {} with --accept-change {}: {} up to there, {} since then; made again it has one "
        "of them in all of its steps, so other bits are to be expected\n",
        step, printable(entry), printable(was), printable(now));
  }
}

/// A folder that nobody else has made or can write.
std::string new_temporary_folder() {
  std::string pattern = (fs::temp_directory_path() / "lockstep-verify-XXXXXX").string();
  if (::mkdtemp(pattern.data()) != nullptr) return pattern;
  throw CheckpointError(
      fmt::format("{} cannot be made: {}; set TMPDIR to a folder that may be written", pattern, std::strerror(errno)));
}

/// What the run comes to when it is made again in that folder, which then goes; how it differs is printed.
std::string made_again(const fs::path& run, const TrainArguments& arguments, const RunRecord& recorded,
                       const std::string& fingerprint) {
  const auto remove = [&] { static_cast<void>(files::remove_tree(arguments.run.parent_path())); };
  std::string made;
  try {
    train(arguments, [&](const data::Dataset& set) { check_fits(run, arguments, set); });
    world()->run_on_first("verifying a run", [&] {
      made = written_fingerprint(arguments.run).value_or("none");
      if (made == fingerprint) return;
      for (const std::string& line : compare(recorded, read_run(arguments.run)).lines) {
        fmt::print("{}\n", printable(line));
      }
    });
  } catch (...) {
    remove();
    throw;
  }
  remove();
  return world()->all_gather_text(made).front();
}

}  // namespace

int verify_run(const fs::path& run, const fs::path& data_dir) {
  check_is_run(run);
  const std::optional<std::string> fingerprint = written_fingerprint(run);
  if (!fingerprint) {
    std::error_code ignored;
    const fs::path result = run / "result.json";
    throw ValueError(fmt::format("{} {}; go on with --resume first", result.string(),
                                 fs::exists(result, ignored) ? "is damaged: it holds no fingerprint"
                                                             : "is not there: the run has not come to its end"));
  }
  const RunRecord recorded = read_run(run);
  const bool speaks = world()->rank() == 0;
  const int differing = speaks ? print_other_entries(recorded) : 0;
  TrainArguments arguments = arguments_of_run(run, data_dir);
  std::string anew;
  world()->run_on_first("making a folder for the run", [&] { anew = new_temporary_folder(); });
  arguments.run = fs::path(world()->all_gather_text(anew).front()) / "run";  // the same in all processes
  arguments.check = false;  // of the step's meaning, which changes no bits
  const std::string made = made_again(run, arguments, recorded, *fingerprint);
  const bool is_equal = made == *fingerprint;
  if (!speaks) return is_equal ? success : failure;
  fmt::print("{}: recorded {}, made again {}\n", is_equal ? "verified" : "NOT verified", printable(*fingerprint), made);
  if (!is_equal && differing > 0) fmt::print("the entries above differ: other bits are to be expected there\n");
  if (!is_equal) print_accepted_changes(run);
  return is_equal ? success : failure;
}

int summarize(const TrainArguments& arguments) {
  static_cast<void>(parallel_options(arguments));  // a precision that the dtype does not go with
  const DataSets sets = load(arguments);
  ArrayType example = sets.train.x.type;
  example.shape = example.shape.with(0, arguments.batch);
  fmt::print("{}", summary(model_of(arguments, sets.train), example));
  return success;
}

}  // namespace lockstep::cli
